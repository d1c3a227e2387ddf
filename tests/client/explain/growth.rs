// SPDX-License-Identifier: MIT
//! A map of visitors grows while a visit is counted.
use std::collections::HashMap;

#[inline(never)]
fn address_of(visit: u32) -> String {
    format!("10.{}.{}.{}", visit % 7, visit / 7 % 251, visit.wrapping_mul(2654435761) >> 24)
}

#[inline(never)]
fn count_visit(visitors: &mut HashMap<String, u32>, visit: u32) {
    *visitors.entry(address_of(visit)).or_insert(0) += 1;
}

fn main() {
    println!("function: growth::count_visit\ncause: reserve_rehash");
    let mut visitors = HashMap::new();
    for visit in 0..500 {
        count_visit(&mut visitors, visit);
    }
    println!("visitors: {}", visitors.len());
}
