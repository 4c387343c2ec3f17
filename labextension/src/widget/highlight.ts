/** Python in JupyterLab's colours, where there is no JupyterLab: strings, comments, words, numbers. */

const WORDS =
  'and as assert async await break case class continue def del elif else except finally for from ' +
  'global if import in is lambda match nonlocal not or pass raise return try while with yield';
const ATOMS = 'False None True';

const TOKEN = new RegExp(
  [
    String.raw`(?<comment>#[^\n]*)`,
    String.raw`(?<string>\b[rbfuRBFU]{0,2}(?:"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)|"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?))`,
    String.raw`(?<number>\b(?:0[xXoObB][\da-fA-F_]+|\d[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?\d+)?)j?\b)`,
    String.raw`(?<keyword>\b(?:${WORDS.replaceAll(' ', '|')})\b)`,
    String.raw`(?<atom>\b(?:${ATOMS.replaceAll(' ', '|')})\b)`,
    String.raw`[^\W\d]\w*` // a name, so that no word is found within one
  ]
    .join('|')
    // A prefix belongs to a string only where a string follows; \b would else demand a prefix.
    .replace(String.raw`\b[rbfuRBFU]{0,2}`, String.raw`(?:\b[rbfuRBFU]{1,2})?`),
  'gu'
);

const KINDS = ['comment', 'string', 'number', 'keyword', 'atom'];

const PYTHON = new Set(['python', 'py', 'python3', 'ipython', 'ipython3']);

/** Draw `code` into `node`; as plain text if the language is not known. */
export function highlight(code: string, language: string, node: HTMLElement): void {
  if (!PYTHON.has(language.toLowerCase())) {
    node.textContent = code;
    return;
  }
  const parts: (Node | string)[] = [];
  let end = 0;
  for (const match of code.matchAll(TOKEN)) {
    const groups: Readonly<Record<string, string | undefined>> = match.groups ?? {};
    const kind = KINDS.find(one => groups[one] !== undefined);
    if (kind !== undefined) {
      const span = document.createElement('span');
      span.className = `jctx-tok-${kind}`;
      span.textContent = match[0];
      parts.push(code.slice(end, match.index), span);
      end = match.index + match[0].length;
    }
  }
  parts.push(code.slice(end));
  node.replaceChildren(...parts);
}
