/** What the view asks of the page, where that is a cell's output and nothing is known around it. */

import type { IHost } from '../host';
import type { IDisposable } from '../view/frame';
import { highlight } from './highlight';
import { drawMarkdown } from './markdown';
import { drawOutputs } from './outputs';

type Call = (op: string, args: Readonly<Record<string, unknown>>) => Promise<unknown>;

/** Cells cannot be reached from an output: the view offers no such button (`NO_ACTIONS`). */
export class OutputHost implements IHost {
  constructor(private readonly _call: Call) {}

  renderMarkdown(text: string, node: HTMLElement): Promise<void> {
    drawMarkdown(text, node);
    return Promise.resolve();
  }

  highlight(code: string, language: string, node: HTMLElement): void {
    highlight(code, language, node);
  }

  renderOutputs(outputs: readonly unknown[], node: HTMLElement): IDisposable {
    drawOutputs(outputs, node);
    return {
      dispose: () => {
        node.replaceChildren();
      }
    };
  }

  call(op: string, args: Readonly<Record<string, unknown>>): Promise<unknown> {
    return this._call(op, args);
  }

  copy(text: string): Promise<void> {
    return navigator.clipboard.writeText(text);
  }

  insertBelow(): void {
    // not offered
  }

  replaceCell(): void {
    // not offered
  }

  openCell(): void {
    // the cell cannot be found from here
  }

  now(): number {
    return Date.now();
  }
}
