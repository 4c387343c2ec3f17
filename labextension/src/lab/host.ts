/** What the view asks of JupyterLab, for one notebook. */

import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { IEditorLanguageRegistry } from '@jupyterlab/codemirror';
import type { IOutput } from '@jupyterlab/nbformat';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { OutputArea, OutputAreaModel, SimplifiedOutputArea } from '@jupyterlab/outputarea';
import { MimeModel } from '@jupyterlab/rendermime';
import type { IRenderMimeRegistry } from '@jupyterlab/rendermime';
import { Widget } from '@lumino/widgets';

import { sourceLines } from '../edits';
import type { IHost } from '../host';
import type { IDisposable } from '../view/frame';
import { goTo, insertCode } from './insert';
import { readMath, restoreMath } from './math';
import { AgentSanitizer } from './sanitize';

export interface IHostParts {
  readonly shell: JupyterFrontEnd.IShell;
  readonly rendermime: IRenderMimeRegistry;
  readonly languages: IEditorLanguageRegistry | null;
  readonly showsRemoteImages: () => boolean;
  /** The view of the notebook that was used last, null if it is closed. */
  readonly notebook: () => NotebookPanel | null;
  readonly call: (op: string, args: Readonly<Record<string, unknown>>) => Promise<unknown>;
}

export class LabHost implements IHost {
  constructor(private readonly _parts: IHostParts) {
    const { rendermime, showsRemoteImages } = _parts;
    const resolver = _parts.notebook()?.content.rendermime.resolver;
    this._rendermime = rendermime.clone({
      sanitizer: new AgentSanitizer(rendermime.sanitizer, showsRemoteImages),
      ...(resolver ? { resolver } : {})
    });
  }

  async renderMarkdown(text: string, node: HTMLElement): Promise<void> {
    const renderer = this._rendermime.createRenderer(MARKDOWN);
    const version = {};
    this._drawn.set(node, version);
    const read = readMath(text);
    const data = { [MARKDOWN]: read.markdown };
    await renderer.renderModel(new MimeModel({ data, trusted: false }));
    if (this._drawn.get(node) === version) {
      const formulas = restoreMath(renderer.node, read);
      node.replaceChildren(renderer.node);
      // Only these are typeset: MathJax finds nothing in the rest of a text.
      const typesetter = this._rendermime.latexTypesetter;
      await Promise.all(formulas.map(async formula => typesetter?.typeset(formula)));
    }
  }

  async highlight(code: string, language: string, node: HTMLElement): Promise<void> {
    const { languages } = this._parts;
    const found = languages?.findBest(language) ?? null;
    const version = {};
    this._drawn.set(node, version);
    if (!languages || !found) {
      node.textContent = code;
      return;
    }
    const drawn = document.createElement('span');
    await languages.highlight(code, found, drawn);
    if (this._drawn.get(node) === version) {
      node.replaceChildren(...drawn.childNodes);
    }
  }

  renderOutputs(outputs: readonly unknown[], node: HTMLElement): IDisposable {
    const model = new OutputAreaModel({ values: outputs as IOutput[], trusted: false });
    const area = new SimplifiedOutputArea({
      model,
      rendermime: this._rendermime,
      contentFactory: OutputArea.defaultContentFactory
    });
    area.addClass('jctx-outputs');
    node.replaceChildren();
    if (node.isConnected) {
      Widget.attach(area, node);
    } else {
      node.append(area.node);
    }
    return {
      dispose: () => {
        if (area.isAttached && !area.node.isConnected) {
          document.body.append(area.node); // React took it out of the page; Lumino wants to itself
        }
        area.dispose();
        model.dispose();
      }
    };
  }

  call(op: string, args: Readonly<Record<string, unknown>>): Promise<unknown> {
    return this._parts.call(op, args);
  }

  copy(text: string): Promise<void> {
    return navigator.clipboard.writeText(text);
  }

  /** Insert below the active cell, so that JupyterLab's undo takes it back; the new one is active. */
  insertBelow(code: string): void {
    const notebook = this._writable();
    if (!notebook?.model) {
      return;
    }
    const at = notebook.widgets.length === 0 ? 0 : notebook.activeCellIndex + 1;
    insertCode(notebook, at, code);
  }

  replaceCell(code: string): void {
    const cell = this._writable()?.activeCell;
    if (cell?.model.type === 'code' && cell.model.getMetadata('editable') !== false) {
      cell.model.sharedModel.setSource(sourceLines(code));
    }
  }

  openCell(id: string): void {
    const panel = this._parts.notebook();
    const at = panel?.content.widgets.findIndex(cell => cell.model.id === id) ?? -1;
    if (!panel || at < 0) {
      return;
    }
    this._parts.shell.activateById(panel.id);
    goTo(panel.content, at);
  }

  now(): number {
    return Date.now();
  }

  private _writable(): NotebookPanel['content'] | null {
    const content = this._parts.notebook()?.content;
    return content?.model && !content.model.readOnly ? content : null;
  }

  private readonly _rendermime: IRenderMimeRegistry;
  private readonly _drawn = new WeakMap<HTMLElement, object>();
}

const MARKDOWN = 'text/markdown';
