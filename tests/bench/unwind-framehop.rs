// The peer of unwind-dumps: the same dumps, unwound by the framehop crate. tests/bench/unwind builds it with cargo in a
// scratch folder; it needs the crates framehop, object and memmap2.
//
// usage: unwind-framehop PASSES RESULT DUMP
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, MayAllocateDuringUnwind, Module, Unwinder};
use object::{Object, ObjectSection, ObjectSegment, SegmentFlags};
use std::collections::HashMap;
use std::io::Write;
use std::time::Instant;

const VDSO: u32 = 1;
const MAP: u32 = 2;
const EXEC: u32 = 3;
const FORK: u32 = 4;
const SAMPLE: u32 = 5;
const MAX_FRAMES: usize = 16384;

type Bytes = &'static [u8];
type Framehop = UnwinderX86_64<Bytes, MayAllocateDuringUnwind>;

#[derive(Clone)]
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

struct Process {
    pid: u32,
    mappings: Vec<Mapping>,
    unwinder: Framehop,
}

struct Sample {
    process: usize,
    registers: [u64; 17],
    stack: Bytes,
}

fn word(bytes: Bytes, at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap())
}

fn half(bytes: Bytes, at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn map_file(path: &str) -> Option<Bytes> {
    let file = std::fs::File::open(path).ok()?;
    let map = unsafe { memmap2::Mmap::map(&file).ok()? };
    Some(Box::leak(Box::new(map)))
}

fn find_process(processes: &mut Vec<Process>, pid: u32) -> usize {
    match processes.iter().rposition(|p| p.pid == pid) {
        Some(index) => index,
        None => {
            processes.push(Process { pid, mappings: Vec::new(), unwinder: Framehop::new() });
            processes.len() - 1
        }
    }
}

fn read_dump(bytes: Bytes) -> (Vec<Process>, Vec<Sample>, Bytes) {
    let (mut processes, mut samples, mut vdso): (Vec<Process>, Vec<Sample>, Bytes) = (Vec::new(), Vec::new(), &[]);
    let mut at = 0;
    while at + 24 <= bytes.len() {
        let (kind, size, pid) = (half(bytes, at), half(bytes, at + 4) as usize, half(bytes, at + 16));
        let body = &bytes[at + 24..at + size];
        match kind {
            VDSO => vdso = body,
            MAP => {
                let (start, size, offset) = (word(body, 0), word(body, 8), word(body, 16));
                let path = String::from_utf8_lossy(body[24..].split(|b| *b == 0).next().unwrap()).into_owned();
                let new = Mapping { start, end: start + size, offset, path };
                let index = find_process(&mut processes, pid);
                let mappings = &mut processes[index].mappings;
                match mappings.iter().position(|m| m.start < new.end && new.start < m.end) {
                    Some(old) => mappings[old] = new,
                    None => mappings.push(new),
                }
            }
            EXEC => processes.push(Process { pid, mappings: Vec::new(), unwinder: Framehop::new() }),
            FORK => {
                let parent = find_process(&mut processes, word(body, 0) as u32);
                let mappings = processes[parent].mappings.clone();
                processes.push(Process { pid, mappings, unwinder: Framehop::new() });
            }
            SAMPLE => {
                let mut registers = [0; 17];
                for (i, register) in registers.iter_mut().enumerate() {
                    *register = word(body, 8 * i);
                }
                let (chain, size) = (word(body, 136) as usize, word(body, 144) as usize);
                let from = 152 + 8 * chain;
                let process = find_process(&mut processes, pid);
                samples.push(Sample { process, registers, stack: &body[from..from + size] });
            }
            _ => {}
        }
        at += size;
    }
    (processes, samples, vdso)
}

fn section(file: &object::File<'static>, name: &str) -> (Option<std::ops::Range<u64>>, Option<Bytes>) {
    match file.section_by_name(name) {
        Some(s) => (Some(s.address()..s.address() + s.size()), s.data().ok().filter(|d| !d.is_empty())),
        None => (None, None),
    }
}

fn add_modules(process: &mut Process, files: &mut HashMap<String, Option<Bytes>>, vdso: Bytes) {
    for mapping in &process.mappings {
        let entry = files.entry(mapping.path.clone());
        let bytes = entry.or_insert_with(|| if mapping.path == "[vdso]" { Some(vdso) } else { map_file(&mapping.path) });
        let Some(file) = bytes.and_then(|b| object::File::parse(b).ok()) else { continue };
        let mut bias = 0;
        for segment in file.segments() {
            let (offset, size) = segment.file_range();
            let executable = matches!(segment.flags(), SegmentFlags::Elf { p_flags } if p_flags & 1 != 0);
            if executable && mapping.offset >= offset & !0xfff && mapping.offset < offset + size {
                bias = mapping.start.wrapping_sub(mapping.offset).wrapping_add(offset).wrapping_sub(segment.address());
            }
        }
        let (text_svma, text) = section(&file, ".text");
        let (eh_frame_svma, eh_frame) = section(&file, ".eh_frame");
        let (eh_frame_hdr_svma, eh_frame_hdr) = section(&file, ".eh_frame_hdr");
        let (got_svma, _) = section(&file, ".got");
        let (_, debug_frame) = section(&file, ".debug_frame");
        let info = ExplicitModuleSectionInfo {
            base_svma: 0,
            text_svma,
            text,
            got_svma,
            eh_frame_svma,
            eh_frame,
            eh_frame_hdr_svma,
            eh_frame_hdr,
            debug_frame,
            ..Default::default()
        };
        process.unwinder.add_module(Module::new(mapping.path.clone(), mapping.start..mapping.end, bias, info));
    }
}

fn unwind(process: &Process, cache: &mut CacheX86_64, sample: &Sample, stack: &[u8], out: &mut Vec<u64>) -> bool {
    let base = sample.registers[7];
    let mut read_stack = |address: u64| {
        let offset = address.wrapping_sub(base) as usize;
        let bytes = stack.get(offset..offset.wrapping_add(8)).ok_or(())?;
        Ok(u64::from_ne_bytes(bytes.try_into().unwrap()))
    };
    let registers = UnwindRegsX86_64::new(sample.registers[16], base, sample.registers[6]);
    let mut frames = process.unwinder.iter_frames(sample.registers[16], registers, cache, &mut read_stack);
    loop {
        match frames.next() {
            Ok(Some(frame)) if out.len() < MAX_FRAMES => out.push(frame.address()),
            Ok(Some(_)) | Err(_) => return false,
            Ok(None) => return true,
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let passes: usize = arguments[1].parse().unwrap();
    let (mut processes, samples, vdso) = read_dump(map_file(&arguments[3]).expect("dump"));
    let mut files = HashMap::new();
    for process in &mut processes {
        add_modules(process, &mut files, vdso);
    }
    let mut result = std::io::BufWriter::new(std::fs::File::create(&arguments[2]).unwrap());
    let mut cache = CacheX86_64::new();
    let (mut hot, mut addresses) = (vec![0u8; 65536], Vec::with_capacity(MAX_FRAMES));
    // The time-stamp counter, as in unwind-dumps.
    let (start, from) = (Instant::now(), unsafe { std::arch::x86_64::_rdtsc() });
    while start.elapsed().as_millis() < 50 {}
    let rate = (unsafe { std::arch::x86_64::_rdtsc() } - from) as f64 / start.elapsed().as_nanos() as f64;
    // The least that each sample took, as in unwind-dumps.
    let (mut ticks, mut frames, mut roots) = (vec![u64::MAX; samples.len()], 0usize, 0usize);
    for pass in 0..passes {
        (frames, roots) = (0, 0);
        for (sample, least) in samples.iter().zip(&mut ticks) {
            let stack = &mut hot[..sample.stack.len()];
            stack.copy_from_slice(sample.stack);
            addresses.clear();
            let from = unsafe { std::arch::x86_64::_rdtsc() };
            let is_root = unwind(&processes[sample.process], &mut cache, sample, stack, &mut addresses);
            *least = (*least).min(unsafe { std::arch::x86_64::_rdtsc() } - from);
            frames += addresses.len();
            roots += is_root as usize;
            if pass == 0 {
                result.write_all(&(addresses.len() as u64).to_ne_bytes()).unwrap();
                for address in &addresses {
                    result.write_all(&address.to_ne_bytes()).unwrap();
                }
            }
        }
    }
    result.flush().unwrap();
    println!(
        "framehop: {} samples, {} frames, {:.1} ns/frame, root reached {:.2} %",
        samples.len(),
        frames,
        ticks.iter().sum::<u64>() as f64 / rate / frames as f64,
        100.0 * roots as f64 / samples.len() as f64
    );
}
