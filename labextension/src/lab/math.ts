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
    'Newextarrow|label|ref|eqref|csname|char)(?![A-Za-z])',
  'gu'
);
const MOST_CHARS = 4_000;

/** What is passed over, TeX, or a dollar: whichever comes first. */
const NEXT = new RegExp(
  [
    '(?<!`)(?<ticks>`+)(?!`)[^]*?[^`]\\k<ticks>(?!`)', // code
    '^[ >]*(?<tildes>~{3,})[^]*?^[ >]*\\k<tildes>',
    '\\]\\([^\\s)]*\\)|\\bhttps?://[^\\s<>]*', // where a link goes
    '(?<dollar>\\\\{1,2}\\$)',
    '\\$\\$(?<display>(?:[^$\\\\]|\\\\[^]){1,4000}?)\\$\\$(?!\\$)',
    '\\$(?![\\s$])(?<inline>(?:[^$\\\\]|\\\\[^]){1,1000}?)(?<!\\s)\\$(?![\\d$])',
    '(?<lines>\\\\begin\\{(?<name>[A-Za-z]{1,20}\\*?)\\}[^]{0,4000}?\\\\end\\{\\k<name>\\})',
    '\\\\[^]',
    '(?<plain>\\$+)'
  ].join('|'),
  'gmu'
);

/** They stand in Markdown for a dollar, and around the number of a formula: no text has them. */
const [DOLLAR, BEGIN, END] = ['\ufdd0', '\ufdd1', '\ufdd2'];
const MARKS = /[\ufdd0-\ufdd2]/gu;
const MARKED = /\ufdd0|\ufdd1(\d+)\ufdd2/gu;

export interface IRead {
  /** The text without a dollar that anything could take for TeX's. */
  readonly markdown: string;
  /** TeX with its dollars, in order. */
  readonly formulas: readonly string[];
}

/** Take TeX out of Markdown. */
export function readMath(markdown: string): IRead {
  const formulas: string[] = [];
  const marked = markdown.replace(MARKS, '').replace(NEXT, (found, ...rest: unknown[]) => {
    const { dollar, plain, display, inline, lines } = rest.at(-1) as Record<string, string>;
    if (dollar !== undefined) {
      return DOLLAR;
    }
    const source = display ?? inline ?? lines;
    const tex = source === undefined ? null : cleanMath(source);
    if (tex !== null) {
      const mark = inline === undefined ? '$$' : '$';
      return BEGIN + String(formulas.push(mark + tex + mark) - 1) + END;
    }
    return source === undefined && plain === undefined ? found : found.replaceAll('$', DOLLAR);
  });
  return { markdown: marked, formulas };
}

/** Put dollars and formulas back into what was drawn. Return the formulas' nodes, to typeset. */
export function restoreMath(drawn: HTMLElement, { formulas }: IRead): readonly HTMLElement[] {
  const nodes: HTMLElement[] = [];
  const walker = drawn.ownerDocument.createTreeWalker(drawn, NodeFilter.SHOW_TEXT);
  const texts: Text[] = [];
  while (walker.nextNode()) {
    texts.push(walker.currentNode as Text);
  }
  for (const text of texts.filter(({ data }) => /[\ufdd0-\ufdd2]/u.test(data))) {
    const parts: (string | Node)[] = [];
    let end = 0;
    for (const found of text.data.matchAll(MARKED)) {
      const tex = found[1] === undefined ? '$' : (formulas[Number(found[1])] ?? '');
      parts.push(text.data.slice(end, found.index));
      end = found.index + found[0].length;
      const isCode = text.parentElement?.closest('code, pre') != null;
      if (found[1] === undefined || isCode) {
        parts.push(tex);
      } else {
        const node = drawn.ownerDocument.createElement('span');
        node.textContent = tex;
        nodes.push(node);
        parts.push(node);
      }
    }
    text.replaceWith(...parts, text.data.slice(end));
  }
  return nodes;
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
