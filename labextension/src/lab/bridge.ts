/**
 * One notebook, as its own kernel sees and changes it.
 *
 * Every change goes through the shared model, so that JupyterLab's undo takes it back, and is read
 * back before it is answered. Nothing here waits: a change is made whole or refused. What a person
 * is doing has the right of way: a cell that runs or waits to is not touched, one that is being
 * written in is neither moved nor deleted, and the selection stays where it was.
 */

import type { INotebookModel, Notebook, NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import type { ISignal } from '@lumino/signaling';

import { isHighSurrogate } from '../events';
import type { Answer, IRefusal, IRequest } from '../events';

type SharedNotebook = INotebookModel['sharedModel'];
type SharedCell = SharedNotebook['cells'][number];
type Context = Pick<
  NotebookPanel['context'],
  'contentsModel' | 'isDisposed' | 'localPath' | 'model'
>;
type View = Pick<Notebook, 'activeCell' | 'activeCellIndex' | 'mode' | 'moveCell'> &
  Partial<Pick<Notebook, 'rendermime'>>;

/** Longest outputs of one cell that are told, in characters of JSON; longer ones are left out. */
export const OUTPUT_CHARS = 2_000_000;

/** A cell as it is told. `outputs` is null when they were not asked for, or are too long. */
export interface ICellState {
  readonly id: string;
  readonly type: string;
  readonly source: string;
  readonly execution_count: number | null;
  readonly failed: boolean;
  readonly busy: boolean;
  readonly outputs: readonly unknown[] | null;
  readonly output_chars: number;
  readonly extra: object;
}

/** A cell's source as it was before a change of the agent, null: there was no cell; and since. */
export interface IEdited {
  readonly cellId: string;
  readonly before: string | null;
  readonly after: string;
}

const WIDGET_VIEW = 'application/vnd.jupyter.widget-view+json';

/** Whether an anywidget is shown in a notebook: both its manager and its own module are there. */
function showsWidgets(view: View | null): boolean {
  const modules = (globalThis as { _JUPYTERLAB?: Readonly<Record<string, unknown>> })._JUPYTERLAB;
  return (
    view?.rendermime?.mimeTypes.includes(WIDGET_VIEW) === true &&
    modules?.['anywidget'] !== undefined
  );
}

/** Answers what the kernel asks of one notebook; `view` is a view of it, null if none is left. */
export class NotebookBridge {
  constructor(context: Context, view: () => View | null) {
    this._context = context;
    this._view = view;
  }

  /** Fired when a cell was inserted or edited for the kernel. */
  get edited(): ISignal<this, IEdited> {
    return this._edited;
  }

  /** Do what is asked and say what stands there then, or why it was not done. Never throws. */
  respond(request: IRequest): Answer {
    try {
      return { ok: true, result: this._do(request) };
    } catch (error) {
      if (error instanceof Refused) {
        return { ok: false, error: error.refusal };
      }
      console.error('jupyter_ctx: a change of the notebook failed', error);
      return { ok: false, error: { kind: 'failed', message: String(error) } };
    }
  }

  private _do({ op, args }: IRequest): object {
    switch (op) {
      case 'hello':
        return { widgets: showsWidgets(this._view()) };
      case 'notebook':
        return this._tell(args['outputs']);
      case 'insert_cell':
        return this._insert(args);
      case 'edit_cell':
        return this._edit(args);
      case 'delete_cell':
        return this._delete(args);
      case 'move_cell':
        return this._move(args);
      case 'set_outputs':
        return this._setOutputs(args);
    }
  }

  /** Tell the whole notebook; outputs of the cells named by `wanted` only, true: of all. */
  private _tell(wanted: unknown): object {
    const ids = new Set(Array.isArray(wanted) ? wanted : []);
    return {
      path: this._context.localPath,
      can_edit: this._isWritable,
      active: this._view()?.activeCell?.model.id ?? null,
      cells: this._cells.map(cell => tell(cell, wanted === true || ids.has(cell.id)))
    };
  }

  private _insert(args: Args): object {
    this._mustBeWritable();
    const cells = this._cells;
    const type = cellType(args['type']);
    const after = textOrNull(args, 'after');
    const top = args['at_top'] === true ? 0 : cells.length;
    const index = after === null ? top : this._find(after) + 1;
    const id = textOrNull(args, 'id');
    const { metadata, attachments } = objectOf(args['extra']);
    const outputs = Array.isArray(args['outputs']) ? args['outputs'] : [];
    const isCode = type === 'code';
    // A code cell without outputs is as trusted as one that the person adds; outputs that are put
    // back were not made by running the cell here, so they are not.
    const isTrusted = isCode && outputs.length === 0;
    this._stopCapturing();
    this._shared.insertCell(index, {
      cell_type: type,
      source: lines(text(args, 'source')),
      metadata: withTrust(objectOf(metadata), isTrusted),
      ...(id !== null && !cells.some(cell => cell.id === id) ? { id } : {}),
      ...(isCode ? { outputs, execution_count: countOf(args['count']) } : {}),
      ...(!isCode && attachments ? { attachments } : {})
    } as Parameters<SharedNotebook['insertCell']>[1]);
    this._stopCapturing();
    const { id: cellId } = this._at(index);
    this._edited.emit({ cellId, before: null, after: this._at(index).getSource() });
    return this._standing(index, null, null);
  }

  private _edit(args: Args): object {
    const index = this._take(args, 'editable');
    const cell = this._at(index);
    const before = tell(cell, false);
    this._mustStand(cell, args);
    replaceSource(cell, lines(text(args, 'source')));
    this._edited.emit({ cellId: cell.id, before: before.source, after: cell.getSource() });
    return this._standing(index, before, this._aboveOf(index));
  }

  private _delete(args: Args): object {
    const index = this._take(args, 'deletable');
    const cell = this._at(index);
    this._mustStand(cell, args);
    this._mustNotType(cell);
    const before = tell(cell, true);
    const above = this._aboveOf(index);
    this._stopCapturing();
    this._shared.deleteCell(index);
    this._stopCapturing();
    if (this._cells.some(({ id }) => id === before.id)) {
      refuse('failed', 'the cell is still there');
    }
    const below = this._cells[index]?.id ?? null;
    return { cell: before, index, above, below, before, above_before: above };
  }

  private _move(args: Args): object {
    const from = this._take(args, 'editable');
    const cell = this._at(from);
    this._mustNotType(cell);
    const before = tell(cell, false);
    const above = this._aboveOf(from);
    const after = textOrNull(args, 'after');
    if (after === cell.id) {
      refuse('bad', 'a cell cannot stand below itself');
    }
    const anchor = after === null ? -1 : this._find(after);
    const to = anchor < from ? anchor + 1 : anchor;
    if (to !== from) {
      this._moveTo(from, to);
    }
    const index = this._find(before.id);
    if (index !== to) {
      refuse('failed', `the cell stands at ${index} now`);
    }
    return this._standing(index, before, above);
  }

  /** Move by way of the view, which keeps what is rendered; what was active stays active. */
  private _moveTo(from: number, to: number): void {
    const view = this._view();
    const active = view?.activeCell?.model.id;
    this._stopCapturing();
    if (view) {
      view.moveCell(from, to, 1);
    } else {
      this._shared.moveCell(from, to);
    }
    this._stopCapturing();
    const at = this._cells.findIndex(({ id }) => id === active);
    if (view && at >= 0) {
      view.activeCellIndex = at;
    }
  }

  private _setOutputs(args: Args): object {
    const index = this._take(args, null);
    const cell = this._at(index);
    const outputs = args['outputs'];
    if (!isCode(cell) || !Array.isArray(outputs)) {
      return refuse('bad', 'only a code cell has outputs');
    }
    const before = tell(cell, false);
    const model = this._context.model.cells.get(index);
    model.trusted = true; // they come from running its source in this kernel, as any outputs do
    cell.setOutputs(outputs as ReturnType<typeof cell.getOutputs>);
    cell.execution_count = countOf(args['count']);
    return this._standing(index, before, this._aboveOf(index));
  }

  // What stands there ---------------------------------------------------------------------------

  private _standing(index: number, before: ICellState | null, aboveBefore: string | null): object {
    return {
      cell: tell(this._at(index), false),
      index,
      above: this._aboveOf(index),
      below: this._cells[index + 1]?.id ?? null,
      before,
      above_before: aboveBefore
    };
  }

  private get _shared(): SharedNotebook {
    return this._context.model.sharedModel;
  }

  private get _cells(): readonly SharedCell[] {
    return this._shared.cells;
  }

  private _aboveOf(index: number): string | null {
    return this._cells[index - 1]?.id ?? null;
  }

  private _at(index: number): SharedCell {
    return this._shared.getCell(index);
  }

  private _find(id: string): number {
    const index = this._cells.findIndex(cell => cell.id === id);
    if (index < 0) {
      refuse('no_cell', `there is no cell ${id}`, { id });
    }
    // A file may say an id twice, and nothing here mends it: which one is meant is not known.
    if (this._cells.some((cell, at) => cell.id === id && at > index)) {
      refuse('twice', `several cells have the id ${id}`, { id });
    }
    return index;
  }

  // What is respected ---------------------------------------------------------------------------

  private get _isWritable(): boolean {
    const { model, contentsModel, isDisposed } = this._context;
    return !isDisposed && !model.readOnly && contentsModel?.writable !== false;
  }

  private _mustBeWritable(): void {
    if (!this._isWritable) {
      refuse('read_only', 'the notebook is read-only');
    }
  }

  /** Return the place of the cell that `args` name, if it may be changed. */
  private _take(args: Args, permission: 'editable' | 'deletable' | null): number {
    this._mustBeWritable();
    const index = this._find(text(args, 'cell_id'));
    const cell = this._at(index);
    if (isCode(cell) && cell.executionState === 'running') {
      refuse('busy', 'the cell runs, or waits to run');
    }
    if (permission !== null && cell.getMetadata(permission) === false) {
      refuse('locked', `the cell is marked as not ${permission}`);
    }
    return index;
  }

  private _mustStand(cell: SharedCell, args: Args): void {
    const source = cell.getSource();
    if (lines(source) !== lines(text(args, 'expected'))) {
      refuse('stale', 'the source is another one now', { source });
    }
  }

  private _mustNotType(cell: SharedCell): void {
    const view = this._view();
    const active = view?.activeCell;
    if (view?.mode === 'edit' && active?.model.id === cell.id && active.editor?.hasFocus()) {
      refuse('typing', 'the user is writing in the cell');
    }
  }

  /** From here on is a step of its own for undo. */
  private _stopCapturing(): void {
    stopCapturing(this._shared);
  }

  private readonly _context: Context;
  private readonly _view: () => View | null;
  private readonly _edited = new Signal<this, IEdited>(this);
}

type Args = Readonly<Record<string, unknown>>;

class Refused extends Error {
  constructor(readonly refusal: IRefusal) {
    super(refusal.message);
  }
}

function refuse(kind: string, message: string, details: object = {}): never {
  throw new Refused({ ...details, kind, message });
}

function tell(cell: SharedCell, withOutputs: boolean): ICellState {
  const { metadata, attachments } = cell.toJSON() as unknown as Args;
  const outputs: readonly { readonly output_type: string }[] = isCode(cell)
    ? cell.getOutputs()
    : [];
  const chars = outputs.length > 0 ? JSON.stringify(outputs).length : 0;
  return {
    id: cell.id,
    type: cell.cell_type,
    source: cell.getSource(),
    execution_count: isCode(cell) ? cell.execution_count : null,
    failed: outputs.some(output => output.output_type === 'error'),
    busy: isCode(cell) && cell.executionState === 'running',
    outputs: withOutputs && chars <= OUTPUT_CHARS ? outputs : null,
    output_chars: chars,
    extra: attachments === undefined ? { metadata } : { metadata, attachments }
  };
}

function withTrust(metadata: Args, isTrusted: boolean): Args {
  const others = Object.entries(metadata).filter(([name]) => name !== 'trusted');
  return Object.fromEntries(isTrusted ? [...others, ['trusted', true]] : others);
}

type CodeCell = Extract<SharedCell, { readonly cell_type: 'code' }>;

function isCode(cell: SharedCell): cell is CodeCell {
  return cell.cell_type === 'code';
}

/** Replace what differs, as one step of undo: a cursor elsewhere in the cell stays where it is. */
function replaceSource(cell: SharedCell, next: string): void {
  const old = cell.getSource();
  const most = Math.min(old.length, next.length);
  let start = 0;
  while (start < most && old[start] === next[start]) {
    start += 1;
  }
  if (start > 0 && isHighSurrogate(old.charCodeAt(start - 1))) {
    start -= 1;
  }
  let tail = 0;
  while (tail < most - start && old[old.length - 1 - tail] === next[next.length - 1 - tail]) {
    tail += 1;
  }
  if (tail > 0 && isLowSurrogate(old.charCodeAt(old.length - tail))) {
    tail -= 1;
  }
  stopCapturing(cell);
  cell.updateSource(start, old.length - tail, next.slice(start, next.length - tail));
  stopCapturing(cell);
}

function isLowSurrogate(unit: number): boolean {
  return unit >= 0xdc00 && unit <= 0xdfff;
}

/** The shared models have an undo manager that their interface does not tell of. */
export function stopCapturing(model: object): void {
  (model as { undoManager?: { stopCapturing(): void } | null }).undoManager?.stopCapturing();
}

/** The editor knows no line end but \n. */
function lines(source: string): string {
  return source.replace(/\r\n?/g, '\n');
}

function text(args: Args, name: string): string {
  const value = args[name];
  return typeof value === 'string' ? value : refuse('bad', `${name} is no text`);
}

function textOrNull(args: Args, name: string): string | null {
  return args[name] === null || args[name] === undefined ? null : text(args, name);
}

function cellType(value: unknown): 'code' | 'markdown' | 'raw' {
  return value === 'code' || value === 'markdown' || value === 'raw'
    ? value
    : refuse('bad', 'the type is code, markdown or raw');
}

function countOf(value: unknown): number | null {
  return typeof value === 'number' && Number.isInteger(value) && value >= 0 ? value : null;
}

function objectOf(value: unknown): Args {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
    ? (value as Args)
    : {};
}
