/** Reads what came over the wire, field by field: what has another type is refused, by name. */

/** The fields of a JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** Why something could not be read; `message` is the end of a sentence. */
export class Malformed extends Error {}

/** Show a value of the wire in a sentence: short, whatever it is. */
export function say(value: unknown): string {
  switch (typeof value) {
    case 'string':
      return JSON.stringify(value.slice(0, 40));
    case 'number':
    case 'boolean':
    case 'bigint':
      return String(value).slice(0, 40);
    case 'object':
      return value === null ? 'null' : Array.isArray(value) ? 'a list' : 'an object';
    case 'undefined':
      return 'missing';
    case 'function':
    case 'symbol':
      return `a ${typeof value}`;
  }
}

export function object(value: unknown, name: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new Malformed(`${name} is no object`);
  }
  return value as Fields;
}

/** Return an own field; what an object inherits was not sent. */
export function field(fields: Fields, name: string): unknown {
  return Object.hasOwn(fields, name) ? fields[name] : undefined;
}

const LONE_SURROGATE = /\p{Surrogate}/u;

/** Well-formed Unicode: half a surrogate pair is no text. */
export function text(fields: Fields, name: string): string {
  const value = field(fields, name);
  if (typeof value !== 'string') {
    throw new Malformed(`${name} is ${say(value)}`);
  }
  if (LONE_SURROGATE.test(value)) {
    throw new Malformed(`${name} has half a character`);
  }
  return value;
}

export function flag(fields: Fields, name: string): boolean {
  const value = field(fields, name);
  if (typeof value !== 'boolean') {
    throw new Malformed(`${name} is ${say(value)}`);
  }
  return value;
}

/** A finite number. */
export function amount(fields: Fields, name: string): number {
  const value = field(fields, name);
  if (typeof value !== 'number' || !Number.isFinite(value)) {
    throw new Malformed(`${name} is ${say(value)}`);
  }
  return value;
}

/** A whole number, 0 or more. */
export function count(fields: Fields, name: string): number {
  const value = amount(fields, name);
  if (!Number.isSafeInteger(value) || value < 0) {
    throw new Malformed(`${name} is ${say(value)}`);
  }
  return value;
}

export function orNull<T>(
  fields: Fields,
  name: string,
  read: (fields: Fields, name: string) => T
): T | null {
  return field(fields, name) === null ? null : read(fields, name);
}

export function choice<T extends string>(fields: Fields, name: string, choices: readonly T[]): T {
  const value = field(fields, name);
  const found = choices.find(one => one === value);
  if (found === undefined) {
    throw new Malformed(`${name} is ${say(value)}`);
  }
  return found;
}

/** Reads one field of an object. */
export type Read<T> = (fields: Fields, name: string) => T;

/** How each field of a `T` is read. */
export type Shape<T> = { readonly [F in keyof T]-?: Read<T[F]> };

/** Read the fields that `shape` names; others are passed over. */
export function shaped<T>(value: unknown, name: string, shape: Shape<T>): T {
  const fields = object(value, name);
  const names = Object.keys(shape) as (keyof T & string)[];
  return Object.fromEntries(names.map(one => [one, shape[one](fields, one)])) as T;
}

/** Read a field that may be null. */
export function nullable<T>(read: Read<T>): Read<T | null> {
  return (fields, name) => orNull(fields, name, read);
}

/** Read a field that may be missing. */
export function orElse<T>(missing: T, read: Read<T>): Read<T> {
  return (fields, name) => (field(fields, name) === undefined ? missing : read(fields, name));
}

/** Read a field that is one of a few words. */
export function oneOf<T extends string>(choices: readonly T[]): Read<T> {
  return (fields, name) => choice(fields, name, choices);
}

/** Read a field that is an object of that shape. */
export function of<T>(shape: Shape<T>): Read<T> {
  return (fields, name) => shaped(field(fields, name), name, shape);
}

/** Read a field that is a list, each element as if it were a field. */
export function listOf<T>(read: Read<T>): Read<readonly T[]> {
  return (fields, name) => {
    const value = field(fields, name);
    if (!Array.isArray(value)) {
      throw new Malformed(`${name} is ${say(value)}`);
    }
    return value.map((one: unknown) => read({ [name]: one }, name));
  };
}

const MOST_DEPTH = 60;

/** Any JSON object whose texts are well-formed: keys as they were sent, none of them special. */
export function json(fields: Fields, name: string): Fields {
  const value = object(field(fields, name), name);
  checkText(value, name, MOST_DEPTH);
  return value;
}

function checkText(value: unknown, name: string, depth: number): void {
  if (typeof value === 'string' && LONE_SURROGATE.test(value)) {
    throw new Malformed(`${name} has half a character`);
  }
  if (typeof value !== 'object' || value === null) {
    return;
  }
  if (depth === 0) {
    throw new Malformed(`${name} is nested too deep`);
  }
  for (const [key, one] of Object.entries(value)) {
    checkText(key, name, depth - 1);
    checkText(one, name, depth - 1);
  }
}

/** Close a switch over a union: a kind without its case does not compile. Throws if one comes. */
export function assertNever(value: never): never {
  throw new Error(`unknown ${JSON.stringify(value)}`);
}
