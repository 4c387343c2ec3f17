/** Reads what came over the wire, field by field: what has another type is refused, by name. */

/** The fields of a JSON object. */
export type Fields = Readonly<Record<string, unknown>>;

/** Why something could not be read; `message` is the end of a sentence. */
export class Malformed extends Error {}

/** Show a value of the wire in a sentence: short, whatever it is. */
export function say(value: unknown): string {
  if (typeof value === 'string') {
    return JSON.stringify(value.slice(0, 40));
  }
  if (typeof value === 'object' && value !== null) {
    return Array.isArray(value) ? 'a list' : 'an object';
  }
  return value === undefined ? 'missing' : String(value).slice(0, 40);
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

/** A list, each of whose elements is read by `read`. */
export function list<T>(
  fields: Fields,
  name: string,
  read: (value: unknown, name: string) => T
): readonly T[] {
  const value = field(fields, name);
  if (!Array.isArray(value)) {
    throw new Malformed(`${name} is ${say(value)}`);
  }
  return value.map((one: unknown, at) => read(one, `${name}[${at}]`));
}

/** An element of a list that is text. */
export function word(value: unknown, name: string): string {
  return text({ [name]: value }, name);
}
