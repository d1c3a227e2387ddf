// SPDX-License-Identifier: MIT
//! One document of many has a picture in it, as a string with escapes.

#[derive(Debug)]
enum Value {
    Number(f64),
    Text(String),
    List(Vec<Value>),
    Object(Vec<(String, Value)>),
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Parser<'a> {
    #[inline(never)]
    fn skip_space(&mut self) {
        while self.at < self.bytes.len() && (self.bytes[self.at] == b' ' || self.bytes[self.at] == b'\n') {
            self.at += 1;
        }
    }

    fn peek(&self) -> u8 {
        *self.bytes.get(self.at).unwrap_or(&0)
    }

    #[inline(never)]
    fn parse_string(&mut self) -> Option<String> {
        let mut text = String::new();
        self.at += 1;
        loop {
            let c = self.peek();
            self.at += 1;
            match c {
                0 => return None,
                b'"' => return Some(text),
                b'\\' => {
                    text.push(if self.peek() == b'n' { '\n' } else { char::from(self.peek()) });
                    self.at += 1;
                }
                c => text.push(char::from(c)),
            }
        }
    }

    #[inline(never)]
    fn parse_number(&mut self) -> Option<f64> {
        let from = self.at;
        while self.peek().is_ascii_digit() || self.peek() == b'.' {
            self.at += 1;
        }
        std::str::from_utf8(&self.bytes[from..self.at]).ok()?.parse().ok()
    }

    #[inline(never)]
    fn parse_list(&mut self) -> Option<Vec<Value>> {
        let mut values = Vec::new();
        loop {
            self.at += 1;
            values.push(self.parse_value()?);
            self.skip_space();
            if self.peek() != b',' {
                self.at += 1;
                return Some(values);
            }
        }
    }

    #[inline(never)]
    fn parse_object(&mut self) -> Option<Vec<(String, Value)>> {
        let mut members = Vec::new();
        loop {
            self.at += 1;
            self.skip_space();
            let name = self.parse_string()?;
            self.skip_space();
            self.at += 1;
            members.push((name, self.parse_value()?));
            self.skip_space();
            if self.peek() != b',' {
                self.at += 1;
                return Some(members);
            }
        }
    }

    #[inline(never)]
    fn parse_value(&mut self) -> Option<Value> {
        self.skip_space();
        match self.peek() {
            b'{' => Some(Value::Object(self.parse_object()?)),
            b'[' => Some(Value::List(self.parse_list()?)),
            b'"' => Some(Value::Text(self.parse_string()?)),
            _ => Some(Value::Number(self.parse_number()?)),
        }
    }
}

#[inline(never)]
fn read_document(text: &str) -> usize {
    let mut parser = Parser { bytes: text.as_bytes(), at: 0 };
    match parser.parse_value() {
        Some(Value::Object(members)) => members.len(),
        Some(Value::List(values)) => values.len(),
        Some(Value::Number(number)) => number as usize,
        Some(Value::Text(text)) => text.len(),
        None => 0,
    }
}

fn main() {
    println!("function: json::read_document\ncause: parse_string");
    let mut sum = 0;
    for i in 0..70u32 {
        let picture = if i == 52 { "\\\\iVBORw0KGgo".repeat(500) } else { "none".to_string() };
        let text = format!(
            "{{\"id\": {i}, \"name\": \"user {i}\",\n \"scores\": [{}, 2.5, {}], \"picture\": \"{picture}\", \"tags\": [\"a\", \"b\"]}}",
            i * 3,
            i * 1000
        );
        sum += read_document(&text);
    }
    println!("sum: {sum}");
}
