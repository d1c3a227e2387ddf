// SPDX-License-Identifier: MIT
//! An order book: traits, closures, generics and collections. Prints how many prices have orders.
use std::collections::{BTreeMap, HashMap};
use std::fmt::Display;

trait Rule<T> {
    fn allows(&self, order: &T) -> bool;
}

struct Order {
    owner: String,
    price: u32,
    amount: u32,
}

struct Limit<F: Fn(u32) -> bool>(F);

impl<F: Fn(u32) -> bool> Rule<Order> for Limit<F> {
    #[inline(never)]
    fn allows(&self, order: &Order) -> bool {
        (self.0)(order.amount)
    }
}

struct Engine {
    rules: Vec<Box<dyn Rule<Order>>>,
    book: BTreeMap<u32, Vec<Order>>,
    amounts: HashMap<String, u64>,
}

#[inline(never)]
fn describe<T: Display>(who: T, price: u32) -> String {
    format!("{} is refused at {}", who, price)
}

impl Engine {
    #[inline(never)]
    fn submit(&mut self, order: Order) -> Result<usize, String> {
        if !self.rules.iter().all(|rule| rule.allows(&order)) {
            return Err(describe(&order.owner, order.price));
        }
        *self.amounts.entry(order.owner.clone()).or_insert(0) += order.amount as u64;
        self.book.entry(order.price).or_default().push(order);
        Ok(self.book.values().map(Vec::len).sum())
    }

    #[inline(never)]
    fn sort(&mut self) {
        for orders in self.book.values_mut() {
            orders.sort_by(|a, b| b.amount.cmp(&a.amount).then_with(|| a.owner.cmp(&b.owner)));
        }
    }
}

fn main() {
    let count: u32 = std::env::args().nth(1).map_or(300, |n| n.parse().unwrap());
    let rules: Vec<Box<dyn Rule<Order>>> = vec![Box::new(Limit(|a| a % 13 != 0)), Box::new(Limit(|a| a < 97))];
    let mut engine = Engine { rules, book: BTreeMap::new(), amounts: HashMap::new() };
    let (mut state, mut refused) = (1u32, 0);

    for i in 0..count {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        let order = Order { owner: format!("trader {}", state >> 28), price: 100 + (state >> 20) % 40, amount: (state >> 8) % 100 };
        if engine.submit(order).is_err() {
            refused += 1;
        }
        if i % 64 == 63 {
            engine.sort();
        }
    }
    println!("{} prices, {} refused", engine.book.len(), refused);
}
