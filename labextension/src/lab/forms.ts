/** How each kind of change stands in the notebook: where, in which words, and which lines it has. */

import type { EditorView } from '@codemirror/view';
import type { Cell } from '@jupyterlab/cells';
import type { Notebook } from '@jupyterlab/notebook';

import { countText, countWords, diffLines, lined } from '../edits';
import type { IEdit, IInsert, IMove, IProposal, ISpot } from '../edits';
import { element, onPerson } from './dom';
import { drawDiff, drawWhole } from './mergeview';

/** What the head says; `detail` is empty or ends with a comma, `stale` is a sentence's beginning. */
export interface IWords {
  readonly title: string;
  readonly detail: string;
  readonly label: string;
  readonly stale: string;
}

/** One change in the notebook. `base` is the source that is shown as the old one. */
export interface IForm {
  /** The cell in which it is drawn. */
  readonly host: Cell;
  /** The cells on which what it shows depends. */
  readonly watched: readonly Cell[];
  words(base: string): IWords;
  /** Draw the lines into `parent`; the view is the caller's. */
  draw(parent: HTMLElement, base: string): EditorView;
  /** Put the node where it belongs, if it is not there. */
  place(node: HTMLElement, isFresh: boolean): void;
  /** Take back what was done to the cells, other than by the node. */
  clear(): void;
}

const REPLACED = 'jctx-in-review';
const DELETED = 'jctx-in-deletion';
const KINDS = { code: 'code', markdown: 'Markdown', raw: 'raw' };

/** Return how a change is drawn at its spot in `host`; `go` shows it. null: its cell is not there. */
export function formOf(
  proposal: IProposal,
  at: ISpot['at'],
  host: Cell,
  notebook: Notebook,
  go: () => void
): IForm | null {
  switch (proposal.op) {
    case 'edit':
      return new EditForm(host, proposal);
    case 'delete':
      return new DeleteForm(host);
    case 'insert':
      return new InsertForm(host, proposal, notebook);
    case 'move': {
      const moved = cellOf(notebook, proposal.cellId);
      return moved && new MoveForm(host, at, moved, proposal, notebook, go);
    }
  }
}

/** In place of the editor; where both are shown, or the input is hidden, below it. */
function placeInCell(cell: Cell, node: HTMLElement, isFresh: boolean): void {
  const { inputArea } = cell;
  const isInPlace = isFresh && inputArea !== null && !cell.inputHidden;
  cell.toggleClass(REPLACED, isInPlace);
  node.classList.toggle('jctx-below', !isInPlace);
  if (!isInPlace) {
    putBelowInput(cell, node);
  } else if (node.parentNode !== inputArea.node) {
    inputArea.node.append(node);
  }
}

function putBelowInput(cell: Cell, node: HTMLElement): void {
  const wrapper = cell.node.querySelector(':scope > .jp-Cell-inputWrapper');
  if (wrapper && wrapper.nextSibling !== node) {
    wrapper.after(node);
  }
}

/** As one more cell: the node is part of its neighbour, so that Lab knows how high that is. */
function placeAsCell(cell: Cell, at: ISpot['at'], node: HTMLElement): void {
  node.classList.add('jctx-below', at === 'top' ? 'jctx-ghost-top' : 'jctx-ghost');
  if (node.parentNode !== cell.node) {
    if (at === 'top') {
      cell.node.prepend(node);
    } else {
      cell.node.append(node);
    }
  }
}

class EditForm implements IForm {
  constructor(
    readonly host: Cell,
    private readonly _edit: IEdit
  ) {}

  get watched(): readonly Cell[] {
    return [this.host];
  }

  words(base: string): IWords {
    const name = nameOf(this.host);
    const lines = diffLines(base, lined(this._edit));
    return {
      title: name,
      detail: `${countText(lines)}, `,
      label: `Proposed edit of ${inSentence(name)}: ${countWords(lines)}`,
      stale: `${name} changed since; showing both`
    };
  }

  draw(parent: HTMLElement, base: string): EditorView {
    return drawDiff(parent, this.host, base, lined(this._edit));
  }

  place(node: HTMLElement, isFresh: boolean): void {
    placeInCell(this.host, node, isFresh);
  }

  clear(): void {
    this.host.removeClass(REPLACED);
  }
}

class DeleteForm implements IForm {
  constructor(readonly host: Cell) {}

  get watched(): readonly Cell[] {
    return [this.host];
  }

  words(base: string): IWords {
    const name = nameOf(this.host);
    const count = linesIn(base);
    const outputs = hasOutputs(this.host) ? ', with its outputs' : '';
    const lines = count === 1 ? 'line' : 'lines';
    return {
      title: `Delete ${inSentence(name)}`,
      detail: `−${count}${outputs}, `,
      label: `Proposed deletion of ${inSentence(name)}: ${count} ${lines} removed${outputs}`,
      stale: `${name} changed since; showing both`
    };
  }

  draw(parent: HTMLElement, base: string): EditorView {
    return drawWhole(parent, this.host, base, '−');
  }

  place(node: HTMLElement, isFresh: boolean): void {
    placeInCell(this.host, node, isFresh);
    this.host.toggleClass(DELETED, isFresh);
  }

  clear(): void {
    this.host.removeClass(REPLACED);
    this.host.removeClass(DELETED);
  }
}

class InsertForm implements IForm {
  constructor(
    readonly host: Cell,
    private readonly _insert: IInsert,
    private readonly _notebook: Notebook
  ) {}

  readonly watched: readonly Cell[] = [];

  words(): IWords {
    const { type, after } = this._insert;
    const count = linesIn(lined(this._insert));
    const where = after === null ? 'at the end' : belowOf(this._notebook, after);
    const lines = count === 1 ? 'line' : 'lines';
    return {
      title: `New ${KINDS[type]} cell`,
      detail: `+${count}, `,
      label: `Proposed new ${KINDS[type]} cell ${where}: ${count} ${lines}`,
      stale: 'The cell above it is gone'
    };
  }

  draw(parent: HTMLElement): EditorView {
    const { type } = this._insert;
    const alike = this._notebook.widgets.find(cell => cell.model.type === type && cell.editor);
    return drawWhole(parent, alike ?? null, lined(this._insert), '+');
  }

  place(node: HTMLElement): void {
    placeAsCell(this.host, 'end', node);
  }

  clear(): void {
    // the node is all there is
  }
}

class MoveForm implements IForm {
  constructor(
    readonly host: Cell,
    private readonly _at: ISpot['at'],
    private readonly _moved: Cell,
    private readonly _move: IMove,
    private readonly _notebook: Notebook,
    go: () => void
  ) {
    const show = element('button', 'link', 'Show');
    onPerson(show, go);
    this._mark.append(this._where, ' · ', show);
    this._mark.dataset['lmSuppressShortcuts'] = 'true';
  }

  get watched(): readonly Cell[] {
    return [this._moved];
  }

  words(): IWords {
    const { after } = this._move;
    const name = nameOf(this._moved);
    const where = after === null ? 'to the top' : belowOf(this._notebook, after);
    this._where.textContent = `Moves ${where}`;
    const isThere = after === null || cellOf(this._notebook, after) !== null;
    return {
      title: `${name} moves ${isThere ? 'here' : where}`,
      detail: '',
      label: `Proposed move of ${inSentence(name)} ${where}`,
      stale: isThere ? `${name} changed since; showing both` : 'The cell above it is gone'
    };
  }

  draw(parent: HTMLElement, base: string): EditorView {
    return drawWhole(parent, this._moved, base, ' ');
  }

  place(node: HTMLElement): void {
    placeAsCell(this.host, this._at, node);
    putBelowInput(this._moved, this._mark);
  }

  clear(): void {
    this._mark.remove();
  }

  private readonly _mark = element('div', 'jctx in-cell jctx-below jctx-moves');
  private readonly _where = element('span');
}

function cellOf(notebook: Notebook, id: string): Cell | null {
  return notebook.widgets.find(({ model }) => model.id === id) ?? null;
}

function belowOf(notebook: Notebook, id: string): string {
  const cell = cellOf(notebook, id);
  return cell ? `below ${inSentence(nameOf(cell))}` : 'below a cell that is gone';
}

function linesIn(source: string): number {
  return source.split('\n').length;
}

function hasOutputs(cell: Cell): boolean {
  const { outputs } = cell.model.sharedModel.toJSON() as { outputs?: readonly unknown[] };
  return outputs !== undefined && outputs.length > 0;
}

function inSentence(name: string): string {
  return name.replace(/^Cell/, 'cell');
}

/** Return what a person calls the cell: by its number, else by its place. */
export function nameOf(cell: Cell): string {
  const shared = cell.model.sharedModel;
  const { execution_count: count = null } = shared as { execution_count?: number | null };
  if (count !== null) {
    return `Cell ${count}`;
  }
  const cells = shared.notebook?.cells ?? [];
  return `Cell ${cells.findIndex(({ id }) => id === shared.id) + 1} of ${cells.length}`;
}
