// What benchmarks ask the demo model, each question once.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { top } from '../api/harness.mjs';

const asked = ['Write a Python function for #.', 'Show me # in Python.', 'I need # in Python.', 'How do I write # in Python?', 'Python, please: #.'];
const heroes = ['a fox', 'the sea', 'a clock', 'two sisters', 'a bridge', 'a dog', 'the moon', 'a train', 'three brothers', 'a lamp', 'an old house', 'the wind', 'a baker', 'winter', 'a cat and a bird'];
const tell = ['Tell me a story about #.', 'Write a short story about #.', 'I want to hear about #. Tell me a tale.'];
const programs = ['a palindrome test', 'binary search', 'bubble sort', 'the greatest common divisor', 'a prime test', 'Fibonacci numbers', 'the factorial of n', 'word counting', 'the maximum of a list', 'reversing a string'];
const nth = (i, forms, things) => forms[Math.floor(i / things.length) % forms.length].replace('#', things[i % things.length]);

export const code = (i) => nth(i, asked, programs), codes = asked.length * programs.length;
export const story = (i) => nth(i, tell, heroes), stories = tell.length * heroes.length;
export const repeated = (i) => `${['The cat sat on the mat and looked at the dog.', 'for (int i = 0; i < n; i++) sum += values[i];', 'One, two, three, four, five, six, seven.'][i % 3]}\n`.repeat(24);
/** A part of a file, from the front again where many streams reach its end. */
export const source = (name, from, length) => {
  const whole = readFileSync(path.join(top, name), 'utf8'), at = from % (whole.length - length);
  return whole.slice(at, at + length);
};
export const random = (seed, n) => {
  let s = seed;
  return Array.from({ length: n }, () => { s = (s * 1103515245 + 12345) % 2147483648; return Math.floor(s / 65536) % 500 + 40; });
};
