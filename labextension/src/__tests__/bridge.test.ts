import { YNotebook } from '@jupyter/ydoc';
import { describe, expect, it, vi } from 'vitest';

import type { Answer, IRequest, Op } from '../events';
import { NotebookBridge, OUTPUT_CHARS } from '../lab/bridge';

const ERROR = { output_type: 'error', ename: 'E', evalue: 'e', traceback: [] };

/** A notebook with cells a, b (Markdown) and c; `view` and `context` are what the bridge uses. */
class Scene {
  readonly notebook = new YNotebook({ disableDocumentWideUndoRedo: true });
  readonly trusted = new Set<string>();
  hasFocus = false;
  readonly view = {
    activeCellIndex: 0,
    mode: 'command' as 'command' | 'edit',
    activeCell: null as unknown,
    moveCell: (from: number, to: number): void => {
      this.notebook.moveCell(from, to);
    }
  };
  readonly context = {
    localPath: 'work/a.ipynb',
    isDisposed: false,
    contentsModel: { writable: true },
    model: {
      readOnly: false,
      sharedModel: this.notebook,
      cells: {
        get: (index: number): object => {
          const { id } = this.notebook.getCell(index);
          const { trusted } = this;
          return {
            set trusted(value: boolean) {
              if (value) {
                trusted.add(id);
              }
            }
          };
        }
      }
    }
  };

  constructor() {
    this.notebook.insertCells(0, [
      { cell_type: 'code', id: 'a', source: 'x = 1', metadata: { tags: ['t'] }, outputs: [ERROR] },
      { cell_type: 'markdown', id: 'b', source: '# Title' },
      { cell_type: 'code', id: 'c', source: 'y = 2' }
    ]);
    this.notebook.undoManager.clear();
  }

  activate(id: string): void {
    this.view.activeCellIndex = this.ids.indexOf(id);
    this.view.activeCell = { model: { id }, editor: { hasFocus: () => this.hasFocus } };
  }

  get ids(): string[] {
    return this.notebook.cells.map(({ id }) => id);
  }

  source(id: string): string | undefined {
    return this.notebook.cells.find(cell => cell.id === id)?.getSource();
  }

  run(id: string): void {
    const cell = this.notebook.cells.find(one => one.id === id);
    if (cell?.cell_type === 'code') {
      (cell as { executionState: string }).executionState = 'running';
    }
  }

  ask(op: Op, args: IRequest['args'] = {}): Answer {
    const bridge = new NotebookBridge(
      this.context as unknown as ConstructorParameters<typeof NotebookBridge>[0],
      () => this.view as unknown as ReturnType<ConstructorParameters<typeof NotebookBridge>[1]>
    );
    return bridge.respond({ type: 'request', id: 'r', op, args, to: null });
  }

  done(op: Op, args: IRequest['args'] = {}): Record<string, unknown> {
    const answer = this.ask(op, args);
    if (!answer.ok) {
      throw new Error(`${op}: ${answer.error.message}`);
    }
    return answer.result as Record<string, unknown>;
  }

  refusal(op: Op, args: IRequest['args'] = {}): string {
    const answer = this.ask(op, args);
    return answer.ok ? 'done' : answer.error.kind;
  }
}

describe('NotebookBridge', () => {
  it('tells every cell in order, and no outputs unless they are asked for', () => {
    const scene = new Scene();
    scene.activate('b');

    expect(scene.done('notebook')).toMatchObject({
      path: 'work/a.ipynb',
      can_edit: true,
      active: 'b',
      cells: [
        { id: 'a', type: 'code', source: 'x = 1', failed: true, busy: false, outputs: null },
        { id: 'b', type: 'markdown', source: '# Title', execution_count: null },
        { id: 'c', type: 'code', failed: false }
      ]
    });
    const cells = scene.done('notebook', { outputs: ['a'] })['cells'];
    expect(cells).toMatchObject([{ outputs: [ERROR] }, { outputs: null }, { outputs: null }]);
  });

  it('leaves out outputs that are too long, and says how long they are', () => {
    const scene = new Scene();
    const text = 'y'.repeat(OUTPUT_CHARS);
    scene.done('set_outputs', {
      cell_id: 'c',
      outputs: [{ output_type: 'stream', name: 'stdout', text }]
    });

    const cells = scene.done('notebook', { outputs: true })['cells'] as Record<string, unknown>[];
    expect(cells[2]?.['outputs']).toBeNull();
    expect(cells[2]?.['output_chars']).toBeGreaterThan(OUTPUT_CHARS);
  });

  it('inserts below a cell, at the end and at the top, and tells the neighbours', () => {
    const scene = new Scene();

    const below = scene.done('insert_cell', { source: 'z', type: 'code', after: 'a', id: 'n1' });
    scene.done('insert_cell', { source: 'e', type: 'raw', id: 'n2' });
    scene.done('insert_cell', { source: '# T', type: 'markdown', at_top: true, id: 'n3' });

    expect(below).toMatchObject({ index: 1, above: 'a', below: 'b', before: null });
    expect(below['cell']).toMatchObject({ id: 'n1', source: 'z', type: 'code' });
    expect(scene.ids).toEqual(['n3', 'a', 'n1', 'b', 'c', 'n2']);
    expect(scene.refusal('insert_cell', { source: '', type: 'code', after: 'gone' })).toBe(
      'no_cell'
    );
    expect(scene.refusal('insert_cell', { source: '', type: 'video' })).toBe('bad');
  });

  it('gives an id that is taken to no second cell', () => {
    const scene = new Scene();

    scene.done('insert_cell', { source: 'z', type: 'code', id: 'a' });

    expect(new Set(scene.ids).size).toBe(4);
  });

  it('puts a deleted cell back as it was, but for its trust', () => {
    const scene = new Scene();
    const gone = scene.done('delete_cell', { cell_id: 'a', expected: 'x = 1' });
    const before = gone['before'] as Record<string, unknown>;
    expect(scene.ids).toEqual(['b', 'c']);
    expect(gone).toMatchObject({ index: 0, above: null, below: 'b' });

    scene.done('insert_cell', {
      ...before,
      count: 7,
      at_top: true,
      extra: { metadata: { tags: ['t'], trusted: true } }
    });

    expect(scene.notebook.getCell(0).toJSON()).toMatchObject({
      id: 'a',
      source: 'x = 1',
      metadata: { tags: ['t'] },
      outputs: [ERROR],
      execution_count: 7
    });
    expect(scene.notebook.getCell(0).getMetadata('trusted')).toBeUndefined();
  });

  it('edits what is there, never what has changed', () => {
    const scene = new Scene();

    expect(scene.ask('edit_cell', { cell_id: 'a', source: 'no', expected: 'x = 0' })).toMatchObject(
      { ok: false, error: { kind: 'stale', source: 'x = 1' } }
    );
    expect(scene.source('a')).toBe('x = 1');
    const done = scene.done('edit_cell', { cell_id: 'a', source: 'x = 10\r\n', expected: 'x = 1' });

    expect(done).toMatchObject({ before: { source: 'x = 1' }, cell: { source: 'x = 10\n' } });
  });

  it.each([
    ['', 'new'],
    ['old', ''],
    ['same', 'same'],
    ['a\u{1F600}b', 'a\u{1F601}b'],
    ['\u{1F600}', '\u{1F600}\u{1F600}'],
    ['\u{1F600}\u{1F601}', '\u{1F601}'],
    ['aaa', 'aaaa'],
    ['one\ntwo\nthree', 'one\n2\nthree']
  ])('makes %j into %j, and undo makes it back', (old, next) => {
    const scene = new Scene();
    const cell = scene.notebook.getCell(0);
    cell.setSource(old);

    scene.done('edit_cell', { cell_id: 'a', source: next, expected: old });

    expect(cell.getSource()).toBe(next);
    if (old !== next) {
      cell.undo();
      expect(cell.getSource()).toBe(old);
    }
  });

  it('is a step of its own for undo, however quickly it follows what a person typed', () => {
    const scene = new Scene();
    const cell = scene.notebook.getCell(0);
    cell.updateSource(5, 5, '0');

    scene.done('edit_cell', { cell_id: 'a', source: 'z', expected: 'x = 10' });
    cell.updateSource(1, 1, '!');

    cell.undo();
    expect(cell.getSource()).toBe('z');
    cell.undo();
    expect(cell.getSource()).toBe('x = 10');
  });

  it('moves below a cell and to the top; what was active stays active', () => {
    const scene = new Scene();
    scene.activate('a');

    const moved = scene.done('move_cell', { cell_id: 'a', after: 'c' });
    expect(scene.ids).toEqual(['b', 'c', 'a']);
    expect(moved).toMatchObject({ index: 2, above: 'c', below: null, above_before: null });
    expect(scene.view.activeCellIndex).toBe(2);
    scene.done('move_cell', { cell_id: 'c' });
    expect(scene.ids).toEqual(['c', 'b', 'a']);
    scene.done('move_cell', { cell_id: 'b', after: 'c' });
    expect(scene.ids).toEqual(['c', 'b', 'a']);
    expect(scene.notebook.getCell(2).toJSON()).toMatchObject({ outputs: [ERROR] });
    expect(scene.refusal('move_cell', { cell_id: 'b', after: 'b' })).toBe('bad');
    expect(scene.refusal('move_cell', { cell_id: 'b', after: 'gone' })).toBe('no_cell');
  });

  it('changes nothing by an id that several cells have', () => {
    const scene = new Scene();
    scene.notebook.insertCell(3, { cell_type: 'code', id: 'c', source: 'y = 2' });
    const before = JSON.stringify(scene.notebook.toJSON());

    expect(scene.refusal('delete_cell', { cell_id: 'c', expected: 'y = 2' })).toBe('twice');
    expect(scene.refusal('edit_cell', { cell_id: 'c', source: '', expected: 'y = 2' })).toBe(
      'twice'
    );
    expect(scene.refusal('move_cell', { cell_id: 'c' })).toBe('twice');
    expect(scene.refusal('insert_cell', { source: '', type: 'code', after: 'c' })).toBe('twice');
    expect(JSON.stringify(scene.notebook.toJSON())).toBe(before);
  });

  it('does not touch a cell that runs, nor take away one that is being written in', () => {
    const scene = new Scene();
    scene.run('c');
    const edit = { cell_id: 'c', source: '', expected: 'y = 2', outputs: [] };
    for (const op of ['edit_cell', 'delete_cell', 'move_cell', 'set_outputs'] as const) {
      expect(scene.refusal(op, edit)).toBe('busy');
    }

    scene.activate('a');
    scene.view.mode = 'edit';
    scene.hasFocus = true;
    expect(scene.refusal('delete_cell', { cell_id: 'a', expected: 'x = 1' })).toBe('typing');
    expect(scene.refusal('move_cell', { cell_id: 'a', after: 'b' })).toBe('typing');
    expect(scene.ids).toEqual(['a', 'b', 'c']);
    scene.done('edit_cell', { cell_id: 'a', source: 'x', expected: 'x = 1' });
  });

  it('changes nothing of a notebook or cell that is not to be changed', () => {
    const scene = new Scene();
    scene.notebook.getCell(0).setMetadata('editable', false);
    scene.notebook.getCell(0).setMetadata('deletable', false);
    expect(scene.refusal('edit_cell', { cell_id: 'a', source: '', expected: 'x = 1' })).toBe(
      'locked'
    );
    expect(scene.refusal('delete_cell', { cell_id: 'a', expected: 'x = 1' })).toBe('locked');

    scene.context.contentsModel.writable = false;
    expect(scene.refusal('insert_cell', { source: '', type: 'code' })).toBe('read_only');
    expect(scene.done('notebook')).toMatchObject({ can_edit: false });
    scene.context.contentsModel.writable = true;
    scene.context.model.readOnly = true;
    expect(scene.refusal('edit_cell', { cell_id: 'c', source: '', expected: 'y = 2' })).toBe(
      'read_only'
    );
    expect(scene.ids).toEqual(['a', 'b', 'c']);
  });

  it('puts outputs into a code cell, as trusted as those of any run', () => {
    const scene = new Scene();
    const outputs = [{ output_type: 'stream', name: 'stdout', text: 'hi\n' }];

    const done = scene.done('set_outputs', { cell_id: 'a', outputs, count: null });

    expect(scene.notebook.getCell(0).toJSON()).toMatchObject({ outputs, execution_count: null });
    expect(done['cell']).toMatchObject({ failed: false });
    expect([...scene.trusted]).toEqual(['a']);
    expect(scene.refusal('set_outputs', { cell_id: 'b', outputs })).toBe('bad');
  });

  it('refuses arguments of the wrong type and never throws', () => {
    const scene = new Scene();

    expect(scene.refusal('edit_cell', { cell_id: 5 })).toBe('bad');
    expect(scene.refusal('delete_cell', {})).toBe('bad');
    expect(scene.done('hello')).toEqual({ widgets: false });
    const log = vi.spyOn(console, 'error').mockImplementation(() => undefined);
    (scene.context as { model: unknown }).model = null;
    expect(scene.refusal('notebook')).toBe('failed');
    expect(log).toHaveBeenCalledOnce();
    log.mockRestore();
  });
});
