// Time that work of the page's one thread may take, so that no text holds up typing: the work asks now and then, and ends by what
// check() throws. Budgets nest; the shortest counts.

export class Overdue extends Error {}

let deadline = Infinity;

/** Gives what `work` gives; it has this many milliseconds. */
export function within(ms, work) {
  const before = deadline;
  deadline = Math.min(before, performance.now() + ms);
  try {
    return work();
  } finally {
    deadline = before;
  }
}

export const isOver = () => performance.now() > deadline;

export function check() {
  if (isOver()) throw new Overdue();
}
