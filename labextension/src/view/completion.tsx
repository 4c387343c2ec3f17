/** What `@` and `/` may become: a list above the prompt, moved in by its arrows. */

import * as React from 'react';

import type { IHost } from '../host';
import type { ICompletion } from '../panel';
import { ask } from './context';

export interface IOffered {
  /** What is completed: the text from here to the caret. */
  readonly from: number;
  readonly cursor: number;
  readonly items: readonly ICompletion[];
  readonly at: number;
  /** Whether the reader moved in it; Enter takes an item then. */
  readonly isMoved: boolean;
}

const WORD = /(?:^|[\s(])@(?!@)[^\s@]*$/;

/** Whether the text at the caret may be completed: a mention, or a command. */
export function isCompletable(text: string, cursor: number): boolean {
  const before = text.slice(0, cursor);
  return WORD.test(before) || /^\/[^\n]*$/.test(before);
}

/** Whether Enter takes the chosen item, rather than sending the prompt. */
export function takesEnter(offered: IOffered, text: string): boolean {
  const typed = text.slice(offered.from, offered.cursor);
  const chosen = offered.items[offered.at]?.text.trimEnd();
  return chosen !== typed && (offered.isMoved || typed.length > 1);
}

interface ICompleter {
  readonly offered: IOffered | null;
  ask: (text: string, cursor: number) => void;
  move: (by: number) => void;
  close: () => void;
}

/** Asks the host as the text changes; an answer to an older text is dropped. */
export function useCompletion(host: IHost): ICompleter {
  const [offered, setOffered] = React.useState<IOffered | null>(null);
  const asked = React.useRef(0);
  const close = React.useCallback(() => {
    asked.current += 1;
    setOffered(null);
  }, []);
  return {
    offered,
    close,
    ask: (text, cursor) => {
      if (!isCompletable(text, cursor)) {
        close();
        return;
      }
      const mine = (asked.current += 1);
      ask(host, 'complete', { text, cursor }).then(
        ({ from, items }) => {
          if (mine === asked.current) {
            setOffered(items.length === 0 ? null : { from, cursor, items, at: 0, isMoved: false });
          }
        },
        () => {
          if (mine === asked.current) {
            setOffered(null); // there is nothing to offer, and the prompt can be sent without
          }
        }
      );
    },
    move: by => {
      setOffered(
        before =>
          before && {
            ...before,
            at: (before.at + by + before.items.length) % before.items.length,
            isMoved: true
          }
      );
    }
  };
}

const GROUPS: Readonly<Record<string, string>> = {
  variable: 'Variables',
  cell: 'Cells',
  output: 'Outputs',
  error: 'Errors',
  file: 'Files',
  folder: 'Files',
  command: 'Commands'
};

interface ICompletionList {
  id: string;
  offered: IOffered;
  typed: string;
  take: (item: ICompletion) => void;
}

export function CompletionList({ id, offered, typed, take }: ICompletionList): React.ReactElement {
  const chosen = React.useRef<HTMLDivElement>(null);
  React.useEffect(() => {
    chosen.current?.scrollIntoView({ block: 'nearest' });
  }, [offered.at]);
  return (
    <div id={id} className="jctx-list jctx-above" role="listbox" aria-label="Completions">
      {groupItems(offered.items).map(({ name, items }) => (
        <div key={name} role="group" aria-label={name}>
          <div className="grp" aria-hidden="true">
            {name}
          </div>
          {items.map(({ item, at }) => (
            <div
              key={item.text}
              id={`${id}-${at}`}
              ref={at === offered.at ? chosen : undefined}
              role="option"
              aria-selected={at === offered.at}
              className={at === offered.at ? 'o2 on' : 'o2'}
              onMouseDown={event => {
                event.preventDefault(); // the prompt keeps the focus
              }}
              onClick={() => {
                take(item);
              }}
            >
              <code className="cut">
                <Marked text={item.text} typed={typed} />
              </code>
              <span className="cut quiet">{item.detail}</span>
            </div>
          ))}
        </div>
      ))}
    </div>
  );
}

function groupItems(
  items: readonly ICompletion[]
): { name: string; items: { item: ICompletion; at: number }[] }[] {
  const groups = new Map<string, { item: ICompletion; at: number }[]>();
  items.forEach((item, at) => {
    const name = GROUPS[item.kind] ?? item.kind;
    groups.set(name, [...(groups.get(name) ?? []), { item, at }]);
  });
  return [...groups].map(([name, items]) => ({ name, items }));
}

function Marked({ text, typed }: { text: string; typed: string }): React.ReactElement {
  const isPrefix = typed !== '' && text.toLowerCase().startsWith(typed.toLowerCase());
  return isPrefix ? (
    <>
      <mark>{text.slice(0, typed.length)}</mark>
      {text.slice(typed.length)}
    </>
  ) : (
    <>{text}</>
  );
}
