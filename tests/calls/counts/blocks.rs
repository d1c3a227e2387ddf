// SPDX-License-Identifier: MIT
//! Loops of fixed length, nested loops, and a state machine.
#[macro_use]
#[path = "count.rs"]
mod count;

counted!(rounded quarter next stepped);

#[inline(always)]
fn quarter(a: u32, b: u32) -> u32 {
    count!(quarter);
    a.wrapping_add(b).rotate_left(7)
}

#[inline(always)]
fn rounded(s: &mut [u32; 4]) {
    count!(rounded);
    for i in 0..4 {
        s[i] = quarter(s[i], s[(i + 1) % 4]);
    }
}

#[derive(Clone, Copy)]
enum State {
    Start,
    Digits(u32),
    End,
}

#[inline(always)]
fn next(s: State, c: u8) -> State {
    count!(next);
    match (s, c) {
        (State::Start, b'0'..=b'9') => State::Digits(1),
        (State::Start, _) => State::Start,
        (State::Digits(n), b'0'..=b'9') => State::Digits(n + 1),
        (State::Digits(n), b' ') if n > 2 => State::End,
        (State::Digits(_), _) => State::Start,
        (State::End, _) => State::End,
    }
}

#[inline(always)]
fn stepped(x: u32) -> u32 {
    count!(stepped);
    if x & 1 == 1 { 3 * x + 1 } else { x / 2 }
}

#[inline(never)]
fn run(seed: u32, text: &[u8]) -> u32 {
    let mut block = [seed, 2, 3, 4];
    for _ in 0..5 {
        rounded(&mut block);
    }
    let mut s = State::Start;
    for &c in text {
        s = next(s, c);
    }
    let mut x = seed % 50 + 1;
    while x != 1 {
        x = stepped(x);
    }
    block[0] ^ matches!(s, State::End) as u32
}

fn main() {
    let texts: [&[u8]; 3] = [b"ab 12 345 x", b"", b"1234"];
    let mut sum = 0;
    for i in 0..60 {
        sum ^= run(count::black_box(i), count::black_box(texts[i as usize % 3]));
    }
    count::black_box(sum);
    show();
}
