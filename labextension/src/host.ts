/** What the view asks of the page it stands in. A mount implements it; the view knows no other. */

import type { IDisposable } from './view/frame';

/** What a call may come back with: the kernel's error, or the page's own. */
export class CallError extends Error {
  constructor(
    /** The kernel's word for it ("gone", "busy", "refused", …); "lost" if no answer came. */
    readonly kind: string,
    message: string
  ) {
    super(message);
    this.name = 'CallError';
  }
}

export interface IHost {
  /** Draw Markdown, sanitised, into `node`, in place of what is in it. Called once per version. */
  renderMarkdown(text: string, node: HTMLElement): Promise<void>;
  /** Draw code into `node` (a `code` element), in place of what is in it; as text if unknown. */
  highlight(code: string, language: string, node: HTMLElement): Promise<void> | void;
  /** Draw nbformat-like outputs, untrusted, into `node`, until disposed. */
  renderOutputs(outputs: readonly unknown[], node: HTMLElement): IDisposable;
  /** Ask the kernel; resolves with its result, rejects with a CallError. */
  call(op: string, args: Readonly<Record<string, unknown>>): Promise<unknown>;
  /** Put text on the clipboard. */
  copy(text: string): Promise<void>;
  /** Put code into a new cell below the active one. */
  insertBelow(code: string): void;
  /** Put code in place of the active cell's. */
  replaceCell(code: string): void;
  /** Show a cell of the notebook, by its id. */
  openCell(id: string): void;
  /** Milliseconds since the epoch. */
  now(): number;
}
