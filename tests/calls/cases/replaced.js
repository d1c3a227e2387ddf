// SPDX-License-Identifier: MIT
// Functions that V8 compiles while they run, and gives up again; exceptions, generators, asynchronous functions.
class Point {
  constructor(x) {
    this.x = x;
  }
}

// A loop that is compiled in the middle, first simply, then well
function distance(a, b) {
  let sum = 0;
  for (let i = 0; i < 50; i++) sum += a.x + b.x;
  return sum;
}

function thrower(i) {
  if (i % 3 === 0) throw new Error('thrown by ' + i);
  return i;
}

function* numbers(n) {
  for (let i = 0; i < n; i++) yield i;
}

async function add(n) {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += await i;
  return sum;
}

let total = 0;
for (let i = 0; i < 6000; i++) total += distance(new Point(i), new Point(1));
// Other kinds of numbers and objects than it was compiled for
for (let i = 0; i < 200; i++) total += distance(new Point(i + 0.5), { y: 1, x: 2 });
for (let i = 0; i < 600; i++) {
  try {
    total += thrower(i);
  } catch (e) {
    total++;
  }
}
for (const i of numbers(1000)) total += i;
const sorted = [...Array(300).keys()].sort((a, b) => b - a);
const text = 'a,b,c'.replace(/[abc]/g, (c) => c + c);
add(100).then((sum) => console.log(total, sorted[0], text, sum));
