// SPDX-License-Identifier: MIT
//! One record of a file is malformed, and the error is described at length.

#[inline(never)]
fn describe_error(record: &str) -> String {
    let mut text = String::new();
    for (at, c) in record.char_indices() {
        text += &format!("{at}: {c:?} is no digit; ");
    }
    text
}

#[inline(never)]
fn parse_field(record: &str) -> Result<u32, String> {
    record.parse().map_err(|_| describe_error(record))
}

#[inline(never)]
fn import_record(record: &str) -> u32 {
    parse_field(record).unwrap_or_else(|text| text.len() as u32)
}

fn main() {
    println!("function: errors::import_record\ncause: errors::describe_error");
    let mut sum = 0u32;
    for i in 0..200u32 {
        let record = if i == 120 { "twelve hundred".to_string() } else { i.to_string() };
        sum = sum.wrapping_add(import_record(&record));
    }
    println!("sum: {sum}");
}
