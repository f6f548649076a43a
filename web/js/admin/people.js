// What more than one section reads of people.

import { call } from "../api.js";

const PAGE = 500; // the server's most

export async function allUsers() {
  const all = [];
  for (;;) {
    const { items } = await call("GET", `/api/users?limit=${PAGE}${all.length ? `&after=${all.at(-1).id}` : ""}`);
    all.push(...items);
    if (items.length < PAGE) return all;
  }
}
