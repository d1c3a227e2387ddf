// SPDX-License-Identifier: MIT
//! Values that count when they are made and dropped, in vectors and boxes, and panics that are caught.
#[macro_use]
#[path = "count.rs"]
mod count;

counted!(made drop checked taken);

struct Thing(u64);

#[inline(always)]
fn made(x: u64) -> Thing {
    count!(made);
    Thing(x)
}

impl Drop for Thing {
    #[inline]
    fn drop(&mut self) {
        count!(drop);
        count::black_box(self.0);
    }
}

#[inline(always)]
fn checked(x: u64) -> u64 {
    count!(checked);
    if x % 17 == 16 {
        panic!("seventeen");
    }
    x + 1
}

#[inline(always)]
fn taken(v: &mut Vec<Thing>) -> Option<Thing> {
    count!(taken);
    v.pop()
}

#[inline(never)]
fn run(n: u64) -> u64 {
    let mut v: Vec<Thing> = (0..n).map(made).collect();
    let mut sum = 0;
    while let Some(t) = taken(&mut v) {
        sum += checked(t.0);
    }
    let last = Box::new(made(sum));
    sum + last.0
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    for n in 0..30 {
        count::black_box(std::panic::catch_unwind(|| run(count::black_box(n))).is_ok());
    }
    show();
}
