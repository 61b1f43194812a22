// Generic and inlined functions, closures and a trait object.
use std::collections::BTreeMap;

trait Speak {
    fn speak(&self, loudness: u32) -> u32;
}

struct Dog {
    name: String,
}

impl Speak for Dog {
    #[inline(never)]
    fn speak(&self, loudness: u32) -> u32 {
        self.name.bytes().map(|b| twice(b as u32)).sum::<u32>() * loudness
    }
}

#[inline(always)]
fn twice(value: u32) -> u32 {
    value.wrapping_mul(2)
}

#[inline(never)]
fn count<T: Ord + Copy>(items: &[T]) -> BTreeMap<T, usize> {
    let mut map = BTreeMap::new();
    for item in items {
        *map.entry(*item).or_insert(0) += 1;
    }
    map
}

fn main() {
    let dog: Box<dyn Speak> = Box::new(Dog { name: std::env::args().next().unwrap_or_default() });
    let map = count(&[1, 2, 3, 2, 1]);
    println!("{} {:?}", dog.speak(3), map);
}
