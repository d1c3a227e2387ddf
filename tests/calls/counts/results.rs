// SPDX-License-Identifier: MIT
//! Early returns by `?`, matches, and options.
#[macro_use]
#[path = "count.rs"]
mod count;

counted!(digit number pair classify);

#[inline(always)]
fn digit(c: u8) -> Result<u32, u8> {
    count!(digit);
    if !c.is_ascii_digit() {
        return Err(c);
    }
    Ok(u32::from(c - b'0'))
}

#[inline(always)]
fn number(s: &[u8]) -> Result<u32, u8> {
    count!(number);
    let mut n = 0u32;
    for &c in s {
        n = n.wrapping_mul(10) + digit(c)?;
    }
    Ok(n)
}

#[inline]
fn pair(s: &str) -> Result<(u32, u32), u8> {
    count!(pair);
    let (a, b) = s.split_once(',').ok_or(0)?;
    Ok((number(a.as_bytes())?, number(b.as_bytes())?))
}

#[inline(always)]
fn classify(n: u32) -> &'static str {
    count!(classify);
    match n {
        0 => "none",
        1..=9 => "few",
        10 | 20 | 30 => "round",
        _ => "many",
    }
}

#[inline(never)]
fn run(s: &str) -> usize {
    match pair(s) {
        Ok((a, b)) if a > b => classify(a).len() + classify(b).len(),
        Ok((a, _)) => classify(a).len(),
        Err(_) => 0,
    }
}

fn main() {
    let texts = ["1,2", "10,9", "x", "30,0", "7,", "12,a", "123,45", ",,", "0,0"];
    let mut sum = 0;
    for i in 0..180 {
        sum += run(count::black_box(texts[i % texts.len()]));
    }
    count::black_box(sum);
    show();
}
