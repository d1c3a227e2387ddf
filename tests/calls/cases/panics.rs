// SPDX-License-Identifier: MIT
// Calls, closures, trait objects, and panics: that unwind through frames with destructors, caught panics, and recursions.
use std::ptr::read_volatile;
use std::panic::catch_unwind;

struct Dropped(u32);

impl Drop for Dropped {
    #[inline(never)]
    fn drop(&mut self) {
        unsafe { read_volatile(&self.0) };
    }
}

trait Shape {
    fn area(&self, n: u32) -> u32;
}

struct Square(u32);
struct Circle(u32);

impl Shape for Square {
    #[inline(never)]
    fn area(&self, n: u32) -> u32 {
        self.0 * self.0 + n
    }
}

impl Shape for Circle {
    #[inline(never)]
    fn area(&self, n: u32) -> u32 {
        if n == 0 { self.0 } else { self.area(n - 1) + 1 }
    }
}

#[inline(never)]
fn apply(f: &dyn Fn(u32) -> u32, n: u32) -> u32 {
    f(n) + 1
}

#[inline(never)]
fn panics(depth: u32, n: u32) -> u32 {
    let d = Dropped(depth);
    if depth == 0 {
        if n % 2 == 1 {
            panic!("odd");
        }
        return d.0 + 1;
    }
    panics(depth - 1, n) + d.0
}

/* Each second frame catches, and goes on panicking where it is not the last. */
#[inline(never)]
fn nested(depth: u32, n: u32) -> u32 {
    let _d = Dropped(depth);
    if depth == 0 {
        return panics(3, n);
    }
    if depth % 2 == 0 {
        return nested(depth - 1, n) + 1;
    }
    match catch_unwind(|| nested(depth - 1, n)) {
        Ok(v) => v,
        Err(_) if depth < 3 => panic!("again"),
        Err(_) => 7,
    }
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    let shapes: Vec<Box<dyn Shape>> = vec![Box::new(Square(3)), Box::new(Circle(4))];
    let mut sum = 0;
    for i in 0..6 {
        for s in &shapes {
            sum += s.area(i);
        }
        sum += apply(&|v| v * 3 + i, i);
        sum += nested(5, i);
        sum += catch_unwind(|| panics(i, i)).unwrap_or(9);
    }
    println!("{}", sum);
}
