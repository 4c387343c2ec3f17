/** Code: highlighted by the host, laid out line by line, with what can be done with it. */

import * as React from 'react';

import { usePlace } from './context';
import { useDrawing } from './drawing';
import { useLatest } from './frame';

/** Code that grows is highlighted up to so many characters; a whole one always. */
const GROWING_CHARS = 20_000;

/** More lines than these stand as they are: a node for each would be slow. */
const MOST_LINES = 5_000;

interface ICode {
  code: string;
  language: string;
  isGrowing?: boolean;
}

export function Code({ code, language, isGrowing = false }: ICode): React.ReactElement {
  const { host } = usePlace();
  const node = useDrawing<HTMLElement>(code, (text, target) => {
    target.textContent = text;
    const isPlain = language === '' || (isGrowing && text.length > GROWING_CHARS);
    const drawing = isPlain ? undefined : host.highlight(text, language, target);
    if (!drawing) {
      layOut(target);
    }
    return drawing?.then(() => {
      layOut(target);
    });
  });
  return (
    <pre className="code">
      <code ref={node} />
    </pre>
  );
}

/** Put each line into a block of its own, so that where it wraps it hangs below its beginning. */
export function layOut(node: HTMLElement): void {
  const page = node.ownerDocument;
  const lines: HTMLElement[] = [];
  const begin = (): HTMLElement => {
    const line = page.createElement('span');
    line.className = 'l';
    lines.push(line);
    return line;
  };
  let line = begin();
  const take = (child: Node): void => {
    const [first = '', ...rest] = textOf(child).split('\n');
    const add = (text: string): void => {
      if (text !== '') {
        const piece = child.cloneNode(false);
        piece.textContent = text;
        line.append(piece);
      }
    };
    add(first);
    for (const text of rest) {
      line.append('\n');
      line = begin();
      add(text);
    }
  };
  if (textOf(node).split('\n').length > MOST_LINES) {
    return;
  }
  node.childNodes.forEach(take);
  for (const made of lines) {
    const indent = /^[ \t]*/.exec(textOf(made))?.[0].length ?? 0;
    made.style.setProperty('--in', `${indent}ch`);
  }
  node.replaceChildren(...lines);
}

function textOf(node: Node): string {
  return node.textContent ?? '';
}

interface ICodeBlock extends ICode {
  /** Whether more of it comes: the actions are absent then, their row is not. */
  isGrowing: boolean;
}

export const CodeBlock = React.memo(function CodeBlock({
  code,
  language,
  isGrowing
}: ICodeBlock): React.ReactElement {
  return (
    <div className="jctx-code">
      <Code code={code} language={language} isGrowing={isGrowing} />
      {isGrowing ? <div className="acts" /> : <CodeActs code={code} />}
    </div>
  );
});

function CodeActs({ code }: { code: string }): React.ReactElement {
  const { host, actions } = usePlace();
  return (
    <div className="acts" role="toolbar" aria-label="Code">
      <Copy text={code} />
      {actions.canInsert && (
        <button
          type="button"
          className="text"
          onClick={() => {
            host.insertBelow(code);
          }}
        >
          Insert below
        </button>
      )}
      {actions.replaceLabel !== null && (
        <button
          type="button"
          className="text"
          onClick={() => {
            host.replaceCell(code);
          }}
        >
          {actions.replaceLabel}
        </button>
      )}
    </div>
  );
}

/** How long "Copied" stands, in milliseconds. */
const COPIED_MS = 2_000;

export function Copy({ text }: { text: string }): React.ReactElement {
  const { host } = usePlace();
  const [said, setSaid] = React.useState('Copy');
  const timer = React.useRef<ReturnType<typeof setTimeout>>();
  React.useEffect(
    () => () => {
      clearTimeout(timer.current);
    },
    []
  );
  const say = useLatest((word: string) => {
    setSaid(word);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => {
      setSaid('Copy');
    }, COPIED_MS);
  });
  return (
    <button
      type="button"
      className="text"
      onClick={() => {
        host.copy(text).then(
          () => {
            say('Copied');
          },
          () => {
            say('Failed');
          }
        );
      }}
    >
      <Same as="Copied" say={said} />
    </button>
  );
}

/** A word in the room of the longest it may become, so that its neighbours stay put. */
export function Same({ as, say }: { as: string; say: string }): React.ReactElement {
  return (
    <span className="jctx-same">
      <span>{say}</span>
      <span className="sizer" aria-hidden="true">
        {as}
      </span>
    </span>
  );
}
