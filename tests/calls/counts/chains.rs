// SPDX-License-Identifier: MIT
//! Chains of iterators with inlined closures and functions.
#[macro_use]
#[path = "count.rs"]
mod count;

counted!(squared wanted total folded);

#[inline]
fn squared(x: u64) -> u64 {
    count!(squared);
    x * x
}

#[inline(always)]
fn wanted(x: u64) -> bool {
    count!(wanted);
    x % 3 != 1
}

#[inline(always)]
fn total(v: &[u64]) -> u64 {
    count!(total);
    v.iter().map(|&x| squared(x)).filter(|&x| wanted(x)).sum()
}

#[inline(always)]
fn folded(a: u64, b: u64) -> u64 {
    count!(folded);
    a.rotate_left(5) ^ b
}

#[inline(never)]
fn run(v: &[u64]) -> u64 {
    let sum = total(v) + total(&v[..v.len() / 2]);
    v.iter().chain(v.iter().rev()).fold(sum, |a, &b| folded(a, b))
}

fn main() {
    let mut sum = 0;
    for n in 0..40u64 {
        let v: Vec<u64> = (0..n).map(|x| x * 7 % 11).collect();
        sum ^= run(count::black_box(&v));
    }
    count::black_box(sum);
    show();
}
