/** Markdown drawn where there is no JupyterLab to draw it: parsed, then sanitised by an allowlist. */

import DOMPurify from 'dompurify';
import type { Config } from 'dompurify';
import { Marked } from 'marked';

/** What an answer may consist of. No element here loads, runs or submits anything. */
const TAGS = [
  ...['a', 'b', 'blockquote', 'br', 'code', 'dd', 'del', 'div', 'dl', 'dt', 'em', 'h1', 'h2'],
  ...['h3', 'h4', 'h5', 'h6', 'hr', 'i', 'kbd', 'li', 'ol', 'p', 'pre', 's', 'span', 'strong'],
  ...['sub', 'sup', 'table', 'tbody', 'td', 'tfoot', 'th', 'thead', 'tr', 'u', 'ul']
];
const ATTRIBUTES = ['align', 'colspan', 'href', 'rowspan', 'start', 'title'];

/** Links of these kinds are kept; any other becomes its text. */
const LINK = /^(?:https?:|mailto:|#)/i;

const CONFIG: Config & { RETURN_DOM_FRAGMENT: true } = {
  ALLOWED_TAGS: TAGS,
  ALLOWED_ATTR: ATTRIBUTES,
  ALLOWED_URI_REGEXP: LINK,
  ALLOW_ARIA_ATTR: false,
  ALLOW_DATA_ATTR: false,
  RETURN_DOM_FRAGMENT: true
};

/** The kernel writes so a dollar that MathJax must not pair; here is none. */
const DOLLAR = '\\\\$';

const parser = new Marked({
  gfm: true,
  extensions: [
    {
      name: 'dollar',
      level: 'inline',
      start: source => source.indexOf(DOLLAR),
      tokenizer: source =>
        source.startsWith(DOLLAR) ? { type: 'dollar', raw: DOLLAR } : undefined,
      renderer: () => '$'
    }
  ],
  renderer: {
    // As in the kernel: HTML is text, and an image is a link to it.
    html: ({ text }) => escape(text),
    image: ({ href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
    checkbox: ({ checked }) => (checked ? '☑ ' : '☐ ')
  }
});

/** Draw `text` into `node`, in place of what is in it. */
export function drawMarkdown(text: string, node: HTMLElement): void {
  node.replaceChildren(sanitise(parser.parse(text, { async: false })));
}

/** Return HTML that nobody trusts as nodes in which nothing acts and nothing is loaded. */
export function sanitise(html: string): DocumentFragment {
  const clean = DOMPurify.sanitize(html, CONFIG);
  for (const link of clean.querySelectorAll('a[href]')) {
    link.setAttribute('rel', 'noopener noreferrer nofollow');
    if (!(link.getAttribute('href') ?? '').startsWith('#')) {
      link.setAttribute('target', '_blank');
    }
  }
  return clean;
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;'
};

function escape(text: string): string {
  return text.replace(/[&<>"']/g, char => ENTITIES[char] ?? char);
}
