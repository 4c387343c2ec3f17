/** Lists that are never changed: each change is a new list. */

/** Return where the last one is that `is` finds; -1: nowhere. */
export function lastIndex<T>(list: readonly T[], is: (one: T) => boolean): number {
  let at = list.length - 1;
  while (at >= 0 && !is(list[at] as T)) {
    at -= 1;
  }
  return at;
}

/** Return the list with another one at `at`. */
export function replaceAt<T>(list: readonly T[], at: number, one: T): readonly T[] {
  const copy = list.slice();
  copy[at] = one;
  return copy;
}

/** Return the list with the last one that `is` finds edited; the same list if there is none. */
export function mapLast<T>(
  list: readonly T[],
  is: (one: T) => boolean,
  edit: (one: T) => T
): readonly T[] {
  const at = lastIndex(list, is);
  const found = list[at];
  return found === undefined ? list : replaceAt(list, at, edit(found));
}
