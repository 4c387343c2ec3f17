/** How one source becomes another, drawn by CodeMirror: read-only, whole, clear without colour. */

import { language } from '@codemirror/language';
import { getChunks, getOriginalDoc, unifiedMergeView } from '@codemirror/merge';
import { EditorState } from '@codemirror/state';
import type { Extension, Range } from '@codemirror/state';
import { Decoration, EditorView, ViewPlugin, highlightSpecialChars } from '@codemirror/view';
import type { DecorationSet, ViewUpdate } from '@codemirror/view';
import type { Cell } from '@jupyterlab/cells';
import { jupyterTheme } from '@jupyterlab/codemirror';
import type { CodeMirrorEditor } from '@jupyterlab/codemirror';

import { DIFF, diffLines, oldNumbers, rowHead } from '../edits';

/** The words of a line that is taken out, without its indentation. */
const STRUCK = Decoration.mark({ class: 'jctx-struck' });

/** What is not seen, or moves what is: drawn as a dot that says its code. */
const DECEPTIVE =
  /(?! )\p{Zs}|\p{Default_Ignorable_Code_Point}|[\u2028-\u202e\u2800\ufff0-\ufffb]/gu;

/** Draw how `before` becomes `after` into `parent`, in the language of `cell`. */
export function drawDiff(
  parent: HTMLElement,
  cell: Cell,
  before: string,
  after: string
): EditorView {
  return new EditorView({
    parent,
    doc: `${after}\n`,
    extensions: [
      EditorState.readOnly.of(true),
      EditorView.editable.of(false),
      EditorView.lineWrapping,
      highlightSpecialChars({ addSpecialChars: DECEPTIVE }),
      languageOf(cell),
      jupyterTheme,
      unifiedMergeView({
        original: `${before}\n`,
        gutter: false,
        mergeControls: false,
        diffConfig: DIFF
      }),
      rowHeads(before, after)
    ]
  });
}

/**
 * Draw a whole source into `parent`, in the language of `cell`: put in, taken out, or as it stands.
 */
export function drawWhole(
  parent: HTMLElement,
  cell: Cell | null,
  source: string,
  sign: '+' | '−' | ' '
): EditorView {
  const lines = source.split('\n');
  const digits = String(lines.length).length;
  const name = { '+': 'cm-changedLine', '−': 'cm-deletedLine', ' ': '' }[sign];
  let from = 0;
  const drawings = lines.flatMap((line, at) => {
    const head = `${String(at + 1).padStart(digits)} ${sign}`;
    const drawn = Decoration.line({ class: name, attributes: { 'data-head': head } }).range(from);
    const text = from + line.length - line.trimStart().length;
    const end = from + line.trimEnd().length;
    from += line.length + 1;
    return sign === '−' && text < end ? [drawn, STRUCK.range(text, end)] : [drawn];
  });
  return new EditorView({
    parent,
    doc: source,
    extensions: [
      EditorState.readOnly.of(true),
      EditorView.editable.of(false),
      EditorView.lineWrapping,
      highlightSpecialChars({ addSpecialChars: DECEPTIVE }),
      cell ? languageOf(cell) : [],
      jupyterTheme,
      EditorView.decorations.of(Decoration.set(drawings)),
      EditorView.editorAttributes.of({ style: `--jctx-head: ${digits + 3}ch` })
    ]
  });
}

/** The language of the cell's own editor, which Lab has loaded already. */
function languageOf(cell: Cell): Extension {
  const state = (cell.editor as CodeMirrorEditor | null)?.editor.state;
  const found = state ? state.facet(language) : null;
  return found ? found.extension : [];
}

/** Put both line numbers and the sign left of each line. */
function rowHeads(before: string, after: string): Extension {
  const counts = [before, after].map(source => source.split('\n').length);
  const digits = String(Math.max(...counts)).length;
  const old = oldNumbers(diffLines(before, after), counts[1] ?? 1);
  const heads: Range<Decoration>[] = [];
  let from = 0;
  after.split('\n').forEach((line, at) => {
    const was = old[at] ?? null;
    const head = rowHead(was, at + 1, was === null ? '+' : ' ', digits);
    heads.push(Decoration.line({ attributes: { 'data-head': head } }).range(from));
    from += line.length + 1;
  });
  heads.push(Decoration.line({ class: 'jctx-end' }).range(from));
  const set: DecorationSet = Decoration.set(heads);
  return [
    EditorView.decorations.of(set),
    EditorView.editorAttributes.of({ style: `--jctx-head: ${2 * digits + 4}ch` }),
    ViewPlugin.define(view => {
      headDeleted(view, digits);
      return {
        update: ({ view: updated }: ViewUpdate) => {
          headDeleted(updated, digits);
        }
      };
    })
  ];
}

/** Lines that are taken out are drawn by the merge view, not as lines: their heads come after. */
function headDeleted(view: EditorView, digits: number): void {
  view.requestMeasure({
    key: headDeleted,
    read: () => null,
    write: () => {
      const found = getChunks(view.state);
      const original = getOriginalDoc(view.state);
      for (const node of view.contentDOM.querySelectorAll('.cm-deletedChunk')) {
        const at = view.posAtDOM(node);
        const chunk = found?.chunks.find(one => one.fromB === at);
        if (chunk) {
          const first = original.lineAt(chunk.fromA).number;
          node.querySelectorAll<HTMLElement>('.cm-deletedLine').forEach((line, index) => {
            line.dataset['head'] = rowHead(first + index, null, '−', digits);
          });
        }
      }
    }
  });
}
