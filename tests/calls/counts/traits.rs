// SPDX-License-Identifier: MIT
//! Generic functions, trait methods and closures that are inlined.
#[macro_use]
#[path = "count.rs"]
mod count;

counted!(area grown apply build);

trait Shape {
    fn area(&self) -> u64;
    #[inline(always)]
    fn grown(&self, by: u64) -> u64 {
        count!(grown);
        self.area() * by
    }
}

struct Square(u64);
struct Rectangle(u64, u64);

impl Shape for Square {
    #[inline(always)]
    fn area(&self) -> u64 {
        count!(area);
        self.0 * self.0
    }
}

impl Shape for Rectangle {
    #[inline(always)]
    fn area(&self) -> u64 {
        count!(area);
        self.0 * self.1
    }
}

#[inline(always)]
fn apply<F: Fn(u64) -> u64>(f: F, x: u64) -> u64 {
    count!(apply);
    f(x) ^ x
}

#[inline]
fn build(x: u64) -> Rectangle {
    count!(build);
    Rectangle(x, x / 2 + 1)
}

#[inline(never)]
fn run(x: u64) -> u64 {
    let r = build(x);
    let mut sum = Square(x).grown(2) + r.grown(3);
    sum += apply(|y| y + r.area(), x);
    if x % 4 == 1 {
        sum += apply(|y| build(y).area(), x + 1);
    }
    sum
}

fn main() {
    let mut sum = 0;
    for i in 0..200 {
        sum ^= run(count::black_box(i));
    }
    count::black_box(sum);
    show();
}
