"""ETL files in Python, for tests: reading the records of a file, and writing files with other records in them.

Written from the structures in the headers of the Windows SDK, apart from sp's own reader and writer."""

import dataclasses
import struct

BUFFER_HEADER = 0x48
SYSTEM64, PERFINFO64, EVENT64, FULL64 = 0x02, 0x11, 0x13, 0x14
SIZED_BEHIND = (0x01, 0x02, 0x03, 0x04, 0x10, 0x11)  # marker, then the size
GROUP_THREAD, GROUP_PERFINFO, GROUP_STACK = 5, 0x0F, 0x18
CSWITCH, READY, SAMPLE, STACK_WALK = 36, 50, 46, 32
KERNEL_TRACE_CONTROL = (0xB3E675D7, 0x9B79EE91, 0xBBCCF6C1)  # first words of the GUIDs of what merging adds


def unpack_lz77(data, size):
    """Plain LZ77 of [MS-XCA], written from the document's pseudocode."""
    out, at, nibble = bytearray(), 0, None
    flags = count = 0
    while len(out) < size:
        if not count:
            flags, = struct.unpack_from("<I", data, at)
            at, count = at + 4, 32
        count -= 1
        if not flags >> count & 1:
            out.append(data[at])
            at += 1
            continue
        match, = struct.unpack_from("<H", data, at)
        at += 2
        length, offset = match % 8, match // 8 + 1
        if length == 7:
            if nibble is None:
                length, nibble, at = data[at] % 16, at, at + 1
            else:
                length, nibble = data[nibble] // 16, None
            if length == 15:
                length, at = data[at], at + 1
                if length == 255:
                    length, = struct.unpack_from("<H", data, at)
                    at += 2
                    if not length:
                        length, = struct.unpack_from("<I", data, at)
                        at += 4
                    length -= 15 + 7
                length += 15
            length += 7
        for _ in range(length + 3):
            out.append(out[-offset])
    return bytes(out)


@dataclasses.dataclass
class Buffer:
    cpu: int
    body: bytes  # records, unpacked


def buffers(path):
    """The buffers of a file; the first one holds the header event."""
    data, offset = path.read_bytes(), 0
    while offset < len(data):
        stored, = struct.unpack_from("<I", data, offset)
        cpu, = struct.unpack_from("<H", data, offset + 0x28)
        used, flags = struct.unpack_from("<IH", data, offset + 0x30)
        body = data[offset + BUFFER_HEADER : offset + stored]
        size = used - BUFFER_HEADER
        yield Buffer(cpu & 0x7FF, unpack_lz77(body, size) if flags & 0x40 else body[:size])
        offset += stored


@dataclasses.dataclass
class Record:
    cpu: int
    bytes: bytes

    @property
    def type(self):
        return self.bytes[2]

    @property
    def is_kernel(self):
        """Written by the kernel, with a group and a code instead of a provider."""
        return self.type in SIZED_BEHIND

    @property
    def group(self):
        return self.bytes[7] if self.is_kernel else None

    @property
    def code(self):
        return self.bytes[6] if self.is_kernel else None

    @property
    def is_added_by_merging(self):
        return self.type == FULL64 and struct.unpack_from("<I", self.bytes, 0x18)[0] in KERNEL_TRACE_CONTROL


def records(buffer):
    at = 0
    while at + 8 <= len(buffer.body):
        marker, behind = struct.unpack_from("<IH", buffer.body, at)
        if marker in (0, 0xFFFFFFFF):
            return
        size = behind if marker >> 16 & 0xFF in SIZED_BEHIND else marker & 0xFFFF
        yield Record(buffer.cpu, buffer.body[at : at + size])
        at += (size + 7) & ~7


def read(path):
    """The header event's record, and all others in the file's order."""
    first, *others = buffers(path)
    header = next(records(first)).bytes
    return header, [record for buffer in others for record in records(buffer)]


def buffer_header(stored, used, cpu, number, flags, buffer_type=0):
    head = bytearray(BUFFER_HEADER)
    struct.pack_into("<II", head, 0, stored, used)
    struct.pack_into("<q", head, 0x18, number)
    struct.pack_into("<H", head, 0x28, cpu)
    struct.pack_into("<IHH", head, 0x30, used, flags, buffer_type)
    return bytes(head)


def buffer_bytes(body, cpu, number, buffer_type, size=65536, flags=0x20):
    used = BUFFER_HEADER + len(body)
    return buffer_header(size, used, cpu, number, flags, buffer_type) + body + b"\xff" * (size - used)


def write(path, header, kept):
    """Writes a file of plain buffers. The records of each CPU stay in their order."""
    fills, number = {}, 0
    with open(path, "wb") as out:
        out.write(buffer_bytes(header, 0, 0, 4))
        for record in kept:
            padded = record.bytes + bytes(-len(record.bytes) % 8)
            body = fills.setdefault(record.cpu, bytearray())
            if len(body) + len(padded) > 65536 - BUFFER_HEADER:
                number += 1
                out.write(buffer_bytes(bytes(body), record.cpu, number, 0))
                body.clear()
            body += padded
        for cpu, body in fills.items():
            number += 1
            out.write(buffer_bytes(bytes(body), cpu, number, 0))
    return path


def repeated(record, count, number):
    """A compressed buffer that has a record of 32 bytes many times: few bytes to write, long to read."""
    assert len(record.bytes) == 32 and count * 32 < 1 << 24
    match = struct.pack("<IHBBHI", 1 << 31, 31 << 3 | 7, 15, 255, 0, (count - 1) * 32 - 3)
    packed = (struct.pack("<I", 0) + record.bytes + match).ljust(16384, b"\0")
    return buffer_header(BUFFER_HEADER + len(packed), BUFFER_HEADER + count * 32, record.cpu, number, 0x60) + packed


# ---- Records ----


def system(group, code, version, time, tid, pid, payload, cpu=0):
    size = 0x20 + len(payload)
    return Record(
        cpu, struct.pack("<HBBHBBIIQQ", version, SYSTEM64, 0xC0, size, code, group, tid, pid, time, 0) + payload
    )


def perf(group, code, version, time, payload, cpu=0):
    return Record(
        cpu, struct.pack("<HBBHBBQ", version, PERFINFO64, 0xC0, 0x10 + len(payload), code, group, time) + payload
    )


def classic(guid, code, version, time, payload):
    """An event of a provider that is no manifest's. `guid`: its bytes as they lie in a file."""
    head = struct.pack("<HBBBBHIIQ", 0x30 + len(payload), FULL64, 0xC0, code, 0, version, 0xFFFFFFFF, 4, time)
    return Record(0, head + guid + bytes(8) + payload)


def guid_bytes(text):
    """The bytes of a GUID that is written as 32 digits, as they lie in a file."""
    first, second, third = int(text[:8], 16), int(text[8:12], 16), int(text[12:16], 16)
    return struct.pack("<IHH", first, second, third) + bytes.fromhex(text[16:])


def image_ids(pid, base, size, timestamp, name, debug_id, pdb, time=0):
    """What merging adds for an image: its time stamp, and the ID of its PDB (32 digits and the age)."""
    provider = guid_bytes("b3e675d725544f18830b2762732560de")
    stamp = struct.pack("<QQII", base, size, pid, timestamp) + name.encode("utf-16le") + b"\0\0"
    debug = struct.pack("<QI", base, pid) + guid_bytes(debug_id[:32])
    debug += struct.pack("<I", int(debug_id[32:], 16)) + pdb.encode() + b"\0"
    return [classic(provider, 0, 2, time, stamp), classic(provider, 36, 2, time, debug)]


def header_event(frequency=10_000_000, start=1, cpus=2, events_lost=0, buffers_lost=0):
    """TRACE_LOGFILE_HEADER of a 64-bit Windows 10 that counts 100 ns."""
    payload = bytearray(0x118 + 4)
    struct.pack_into("<IBBHIIQIII", payload, 0, 65536, 10, 0, 0, 19041, cpus, 0, 156250, 0, 1)
    struct.pack_into("<IIIII", payload, 36, 0, 1, 8, events_lost, 3000)
    struct.pack_into("<QQQII", payload, 248, 132_000_000_000_000_000, frequency, 132_000_000_000_000_000, 1, buffers_lost)
    return system(0, 0, 2, start, 0, 0, bytes(payload)).bytes


def process(pid, parent, name, command, time=0, code=3):
    payload = struct.pack("<QIIIiQII", pid, pid, parent, 0, 0, 0, 0, 0)
    payload += name.encode() + b"\0" + command.encode("utf-16le") + b"\0\0"
    return system(3, code, 4, time, 0xFFFFFFFF, 0xFFFFFFFF, payload)


def thread(pid, tid, name="", time=0, code=3):
    payload = struct.pack("<II7QI4B", pid, tid, *[0] * 7, 0, *[0] * 4) + name.encode("utf-16le") + b"\0\0"
    return system(GROUP_THREAD, code, 3, time, 0xFFFFFFFF, 0xFFFFFFFF, payload)


def image(pid, base, size, path, time=0, code=3):
    payload = struct.pack("<QQIIIIQ4I", base, size, pid, 0, 0x5F000000, 0, base, 0, 0, 0, 0)
    return system(0x14, code, 3, time, 0xFFFFFFFF, pid, payload + path.encode("utf-16le") + b"\0\0")


def sample(time, tid, address, flags=0, cpu=0):
    return perf(GROUP_PERFINFO, SAMPLE, 2, time, struct.pack("<QIHBB", address, tid, 1, flags, 0), cpu)


def stack(time, event_time, pid, tid, addresses, cpu=0):
    payload = struct.pack("<QII", event_time, pid, tid) + struct.pack(f"<{len(addresses)}Q", *addresses)
    return perf(GROUP_STACK, STACK_WALK, 2, time, payload, cpu)


def switch(time, new, old, reason=0, state=0, cpu=0):
    payload = struct.pack("<II8BII", new, old, 0, 0, 0, 0, reason, 0, state, 0, 0, 0)
    return system(GROUP_THREAD, CSWITCH, 3, time, 0xFFFFFFFF, 0xFFFFFFFF, payload, cpu)


def ready(time, tid, waker, waker_pid, cpu=0):
    return system(GROUP_THREAD, READY, 2, time, waker, waker_pid, struct.pack("<IBBBB", tid, 0, 0, 0, 0), cpu)
