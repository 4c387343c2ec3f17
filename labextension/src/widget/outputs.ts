/** Outputs of a cell, drawn untrusted: text, sanitised HTML, and pictures that hold their data. */

import { drawMarkdown, sanitise } from './markdown';

type Bundle = Readonly<Record<string, unknown>>;

/** What is drawn of an output, the best first. Scripts, widgets and frames are not. */
const IMAGES = ['image/png', 'image/jpeg', 'image/gif', 'image/webp', 'image/svg+xml'] as const;

// eslint-disable-next-line no-control-regex -- colours in printed text are escape sequences
const ANSI = /\u001b\[[0-9;?]*[ -/]*[@-~]|\u001b\][^\u0007]*\u0007/g;

/** Draw nbformat-like outputs below one another. */
export function drawOutputs(outputs: readonly unknown[], node: HTMLElement): void {
  node.replaceChildren(...outputs.map(one => drawOutput((one ?? {}) as Bundle)));
}

function drawOutput(output: Bundle): HTMLElement {
  switch (output.output_type) {
    case 'stream':
      return drawText(join(output.text), output.name === 'stderr');
    case 'error':
      return drawText(
        join(output.traceback, '\n') || `${join(output.ename)}: ${join(output.evalue)}`,
        true
      );
    default:
      return drawBundle((output.data ?? {}) as Bundle);
  }
}

function drawBundle(data: Bundle): HTMLElement {
  for (const type of IMAGES) {
    if (type in data) {
      return drawImage(type, join(data[type]), join(data['text/plain']));
    }
  }
  const node = document.createElement('div');
  if ('text/html' in data) {
    node.append(sanitise(join(data['text/html'])));
    return node;
  }
  if ('text/markdown' in data) {
    drawMarkdown(join(data['text/markdown']), node);
    return node;
  }
  return drawText(join(data['text/plain']), false);
}

/** An image element runs no script, also not one within an SVG picture. */
function drawImage(type: string, data: string, name: string): HTMLElement {
  const image = document.createElement('img');
  image.alt = name;
  const base64 = data.replace(/\s/g, '');
  image.src =
    type === 'image/svg+xml'
      ? `data:${type};charset=utf-8,${encodeURIComponent(data)}`
      : `data:${type};base64,${base64}`;
  return image;
}

function drawText(text: string, isError: boolean): HTMLElement {
  const node = document.createElement('pre');
  node.textContent = text.replace(ANSI, '');
  node.classList.toggle('jctx-stderr', isError);
  return node;
}

/** Return text that nbformat may keep as a list of lines; "" if it is none. */
function join(value: unknown, glue = ''): string {
  if (Array.isArray(value)) {
    return value.filter(one => typeof one === 'string').join(glue);
  }
  return typeof value === 'string' ? value : '';
}
