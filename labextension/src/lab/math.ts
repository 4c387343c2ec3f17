/**
 * TeX in an answer, before JupyterLab reads it: what is none stays as written, and in what is
 * nothing acts. The rules are those of the saved output (`ipython/mathtext.py`).
 */

/** Macros that take a URL, a style or an element's attribute, load code, or redefine others. */
const ACTIVE = new RegExp(
  '\\\\(href|url|class|style|cssId|data|html[A-Za-z]*|includegraphics|require|unicode|mmlToken|' +
    'bbox|texttip|mathtip|toggle|def|gdef|edef|xdef|let|futurelet|global|newcommand|' +
    'renewcommand|providecommand|newenvironment|renewenvironment|DeclareMathOperator|' +
    'DeclarePairedDelimiters?|DeclarePairedDelimitersX|DeclarePairedDelimitersXPP|' +
    'Newextarrow|mathtoolsset|newtagform|renewtagform|usetagform|definecolor|' +
    'label|ref|eqref|csname|char)(?![A-Za-z])',
  'gu'
);
const MOST_CHARS = 4_000;

/** What is passed over, TeX, or a dollar: whichever comes first. No part is read twice over. */
const NEXT = new RegExp(
  [
    '(?<!`)(?<ticks>`+)(?!`)[^]*?[^`]\\k<ticks>(?!`)', // code
    '^[ >]*`{3,}[^`\\n]*\\n[^]*', // code that has no end yet
    '^[ >]*(?<tildes>~{3,})(?!~)[^\\n]*\\n(?:[^]*?^[ >]*\\k<tildes>|[^]*)',
    '\\]\\((?:<[^<>\\n]{0,2000}>|[^\\s()]*(?:\\([^\\s()]{0,200}\\)[^\\s()]*)*)', // where a link goes
    '\\b(?:https?://|www\\.)[^\\s<>]*',
    '(?<dollar>\\\\{1,2}\\$)',
    '\\$\\$(?<display>(?:[^$\\\\]|\\\\[^]){1,4000}?)\\$\\$(?!\\$)',
    '\\$(?![\\s$])(?<inline>(?:[^$\\\\]|\\\\[^]){1,1000}?)(?<!\\s)\\$(?![\\d$])',
    '(?<lines>\\\\begin\\{(?<name>[A-Za-z]{1,20}\\*?)\\}[^]{0,4000}?\\\\end\\{\\k<name>\\})',
    '\\\\[^]',
    '\\$+'
  ].join('|'),
  'gmu'
);

/** They stand for a dollar, the number of a formula, and dollars behind backslashes. */
const [DOLLAR, BEGIN, END] = ['\ufdd0', '\ufdd1', '\ufdd2'];
const [ESCAPED, ESCAPED_TWICE] = ['\ufdd3', '\ufdd4'];
const MARKS = /[\ufdd0-\ufdd4]/gu;
const MARKED = /[\ufdd0\ufdd3\ufdd4]|\ufdd1(\d+)\ufdd2/gu;
/** In an attribute they may stand as a URL has them. */
const MARKED_IN_URL = /%EF%B7%(?:90|93|94)|%EF%B7%91\d+%EF%B7%92/gu;
/** How what is put back stands in attributes that are no text. */
const WRITTEN: Readonly<Record<string, (text: string) => string>> = {
  href: inUrl,
  src: inUrl,
  'data-commandlinker-args': text => JSON.stringify(text).slice(1, -1)
};

export interface IFormula {
  /** In its dollars, clean. */
  readonly tex: string;
  /** As it was written. */
  readonly source: string;
}

export interface IRead {
  /** The text without a dollar that anything could take for TeX's. */
  readonly markdown: string;
  /** In order. */
  readonly formulas: readonly IFormula[];
}

/** Take TeX out of Markdown. */
export function readMath(markdown: string): IRead {
  const formulas: IFormula[] = [];
  const marked = markdown.replace(MARKS, '').replace(NEXT, (found: string, ...rest: unknown[]) => {
    const { dollar, display, inline, lines } = rest.at(-1) as Record<string, string>;
    if (dollar !== undefined) {
      return dollar.length === 2 ? ESCAPED : ESCAPED_TWICE;
    }
    const source = display ?? inline ?? lines;
    const tex = source === undefined ? null : cleanMath(source);
    if (tex === null) {
      return found.replaceAll('$', DOLLAR);
    }
    const mark = inline === undefined ? '$$' : '$';
    return BEGIN + String(formulas.push({ tex: mark + tex + mark, source: found }) - 1) + END;
  });
  return { markdown: marked, formulas };
}

/** Put dollars and formulas back into what was drawn. Return the formulas' nodes, to typeset. */
export function restoreMath(drawn: HTMLElement, { formulas }: IRead): readonly HTMLElement[] {
  const nodes: HTMLElement[] = [];
  const page = drawn.ownerDocument;
  const walker = page.createTreeWalker(drawn, NodeFilter.SHOW_TEXT | NodeFilter.SHOW_ELEMENT);
  const texts: Text[] = [];
  while (walker.nextNode()) {
    if (walker.currentNode.nodeType === Node.TEXT_NODE) {
      texts.push(walker.currentNode as Text);
    } else {
      restoreAttributes(walker.currentNode as Element, formulas);
    }
  }
  for (const text of texts.filter(({ data }) => data.search(MARKS) >= 0)) {
    const isCode = text.parentElement?.closest('code, pre') != null;
    const parts = page.createDocumentFragment();
    let [kept, end] = ['', 0];
    for (const found of text.data.matchAll(MARKED)) {
      kept += text.data.slice(end, found.index);
      end = found.index + found[0].length;
      const formula = formulas[Number(found[1])];
      if (formula && !isCode) {
        const node = page.createElement('span');
        node.textContent = formula.tex;
        nodes.push(node);
        parts.append(kept, node);
        kept = '';
      } else {
        kept += sourceOf(found[0], formulas, isCode);
      }
    }
    parts.append(kept + text.data.slice(end));
    text.replaceWith(parts);
  }
  return nodes;
}

function restoreAttributes(element: Element, formulas: readonly IFormula[]): void {
  for (const { name, value } of element.attributes) {
    const restored = value
      .replace(MARKED_IN_URL, decodeURIComponent)
      .replace(MARKED, found => (WRITTEN[name] ?? String)(sourceOf(found, formulas, false)));
    if (restored !== value) {
      element.setAttribute(name, restored);
    }
  }
}

/** Return what was written where a mark stands; backslashes before a dollar show in code only. */
function sourceOf(mark: string, formulas: readonly IFormula[], isCode: boolean): string {
  if (mark.startsWith(BEGIN)) {
    return formulas[Number(mark.slice(1, -1))]?.source ?? '';
  }
  const escape = mark === ESCAPED ? '\\' : mark === ESCAPED_TWICE ? '\\\\' : '';
  return isCode ? `${escape}$` : '$';
}

function inUrl(text: string): string {
  return encodeURI(text.replace(/\p{Surrogate}/gu, '\ufffd'));
}

/** Return TeX on one line in which nothing acts, null if it is better shown as text. */
export function cleanMath(source: string): string | null {
  const isText = source.includes('`') || source.includes('@@') || /\n\s*\n/u.test(source);
  if (source.length > MOST_CHARS || isText || !isBalanced(source)) {
    return null;
  }
  const line = source
    .replace(/(?<!\\)%[^\n]*/gu, '')
    .trim()
    .split(/\s+/u)
    .join(' ');
  if (line === '' || line.replaceAll('\\$', '').includes('$')) {
    return null;
  }
  const inert = line
    .replaceAll('<', '\\lt ')
    .replace(/\](?=[([:])/gu, '] ')
    .replace(/&(?=[#A-Za-z])/gu, '& ')
    .replaceAll('://', ': //')
    .replaceAll('www.', 'www .')
    .replace(ACTIVE, (_, name: string) => `\\text{${name}}`);
  return inert.endsWith('\\') ? `${inert}{}` : inert;
}

function isBalanced(source: string): boolean {
  let depth = 0;
  for (const char of source.replace(/\\[^]/gu, '')) {
    depth += Number(char === '{') - Number(char === '}');
    if (depth < 0) {
      return false;
    }
  }
  return depth === 0;
}
