/** Rows of what a turn does: one line each, 24 px; opened, they show code, output and figures. */

import * as React from 'react';

import type { IToolPart, IThinkingPart } from '../conversation';
import { Code } from './code';
import { ask, reasonOf, usePlace } from './context';
import { formatCount } from './format';
import { BlockIcon, CrossIcon, RightIcon, RunIcon } from './icons';
import { stepLine, summarise, toolCode, totals } from './words';

export interface IRows {
  parts: readonly (IToolPart | IThinkingPart)[];
}

/** Return whether a step shows a figure: that is what was asked for, and stays in sight. */
export function hasFigure(part: IToolPart | IThinkingPart): boolean {
  return part.kind === 'tool' && part.result?.hasOutputs === true && part.result.images > 0;
}

export function Rows({ parts }: IRows): React.ReactElement | null {
  return parts.length === 0 ? null : (
    <div className="jctx-tools" role="group" aria-label="Steps">
      <RowList parts={parts} />
    </div>
  );
}

function RowList({ parts }: IRows): React.ReactElement {
  return (
    <>
      {parts.map((part, at) =>
        part.kind === 'tool' ? (
          <ToolRow key={part.id} tool={part} />
        ) : (
          <ThinkingRow key={`thinking-${at}`} part={part} />
        )
      )}
    </>
  );
}

interface IFolded extends IRows {
  /** Model calls of the turn; null if it never told. */
  steps: number | null;
}

/** All rows of a finished turn, behind one. */
export function FoldedRows({ parts, steps }: IFolded): React.ReactElement {
  const tools = parts.filter((part): part is IToolPart => part.kind === 'tool');
  const { tokens, time } = totals(tools);
  return (
    <div className="jctx-tools">
      <Row
        label={<span className="cut">{summarise(tools, steps)}</span>}
        tokens={tokens}
        time={time}
      >
        <div className="jctx-tools folded" role="group" aria-label="Steps">
          <RowList parts={parts} />
        </div>
      </Row>
    </div>
  );
}

interface IRow {
  label: React.ReactNode;
  tokens: string;
  time: string;
  /** Whether it opens by itself; what the reader did counts more. */
  opens?: boolean;
  onOpen?: () => void;
  children?: React.ReactNode;
}

function Row({ label, tokens, time, opens = false, onOpen, children }: IRow): React.ReactElement {
  const [chosen, setChosen] = React.useState<boolean | null>(null);
  const isOpen = chosen ?? opens;
  const told = React.useRef(false);
  React.useEffect(() => {
    if (isOpen && !told.current) {
      told.current = true;
      onOpen?.();
    }
  }, [isOpen, onOpen]);
  return (
    <details
      open={isOpen}
      onToggle={event => {
        // A closed row that the browser's find opens is told here too; an inner row is not ours.
        if (event.target === event.currentTarget && event.currentTarget.open !== isOpen) {
          setChosen(event.currentTarget.open);
        }
      }}
    >
      <summary>
        <span className="caret">
          <RightIcon />
        </span>
        {label}
        <span className="w">{tokens}</span>
        <span className="t">{time}</span>
      </summary>
      {children}
    </details>
  );
}

const ThinkingRow = React.memo(function ThinkingRow({
  part
}: {
  part: IThinkingPart;
}): React.ReactElement {
  return (
    <Row label={<span className="cut quiet">Thinking</span>} tokens="" time="">
      <div className="body">
        <pre className="out thinking" tabIndex={0} role="group" aria-label="Thinking">
          {part.text}
        </pre>
      </div>
    </Row>
  );
});

const ToolRow = React.memo(function ToolRow({ tool }: { tool: IToolPart }): React.ReactElement {
  const { host } = usePlace();
  const [wasOpened, setWasOpened] = React.useState(false);
  // What opened while it ran stays open once it is done: rows keep their height.
  const [ran, setRan] = React.useState(false);
  if (!ran && tool.result === null && tool.output !== '') {
    setRan(true);
  }
  const line = stepLine(tool);
  const code = toolCode(tool);
  const figure = hasFigure(tool) ? <Outputs id={tool.id} text="" isFigure /> : null;
  const open = React.useCallback(() => {
    setWasOpened(true);
  }, []);
  const row = (
    <Row
      label={
        <span className="lab">
          <Mark tool={tool} />
          <span className="cut">{line.text}</span>
        </span>
      }
      tokens={line.tokens}
      time={line.time}
      opens={ran}
      onOpen={open}
    >
      <div className="body">
        {code !== null &&
          (wasOpened ? (
            <Code code={code.text} language={code.language} />
          ) : (
            <pre className="code">{code.text}</pre>
          ))}
        {figure === null && wasOpened && tool.result?.hasOutputs ? (
          <Outputs id={tool.id} text={tool.result.text} />
        ) : (
          <Out tool={tool} />
        )}
        <Kept tool={tool} />
        {tool.edits.some(edit => !edit.isUndone) && (
          <Edits tool={tool} undo={() => ask(host, 'undo_edit', { tool_use_id: tool.id })} />
        )}
      </div>
    </Row>
  );
  return (
    <>
      {row}
      {figure}
    </>
  );
});

function Mark({ tool }: { tool: IToolPart }): React.ReactElement | null {
  const { result } = tool;
  if (result === null) {
    return (
      <span className="now">
        <RunIcon />
      </span>
    );
  }
  if (result.isDenied) {
    return (
      <span className="quiet">
        <BlockIcon />
      </span>
    );
  }
  return result.isError || result.isInterrupted ? (
    <span className="bad">
      <CrossIcon />
    </span>
  ) : null;
}

/** What it printed: the end while it runs, the beginning once it is done. */
function Out({ tool }: { tool: IToolPart }): React.ReactElement | null {
  const { result } = tool;
  const text = result === null ? tool.output : result.text;
  if (text === '' || result?.isDenied) {
    return null;
  }
  const shown = text.split('\n').length;
  const more = result === null || text.length >= result.chars ? 0 : result.lines - shown;
  return (
    <pre className="out" tabIndex={0} role="group" aria-label="Output">
      {text}
      {more > 0 && `\n… ${formatCount(more)} more lines`}
    </pre>
  );
}

interface IOutputs {
  id: string;
  text: string;
  /** Draw the figures alone: the rest stands in the row. */
  isFigure?: boolean;
}

/** Figures and tables, as the host draws them; until they are there, the text. */
function Outputs({ id, text, isFigure = false }: IOutputs): React.ReactElement {
  const { host } = usePlace();
  const node = React.useRef<HTMLDivElement>(null);
  const [failed, setFailed] = React.useState('');
  const [isDrawn, setIsDrawn] = React.useState(false);
  React.useEffect(() => {
    let isGone = false;
    let drawn: { dispose(): void } | null = null;
    ask(host, 'outputs', { tool_use_id: id }).then(
      ({ outputs }) => {
        if (!isGone && node.current) {
          drawn = host.renderOutputs(isFigure ? outputs.filter(isPicture) : outputs, node.current);
          setIsDrawn(true);
        }
      },
      (error: unknown) => {
        if (!isGone) {
          setFailed(reasonOf(error));
        }
      }
    );
    return () => {
      isGone = true;
      drawn?.dispose();
    };
  }, [host, id, isFigure]);
  return (
    <>
      {!isDrawn && text !== '' && (
        <pre className="out" tabIndex={0} role="group" aria-label="Output">
          {text}
        </pre>
      )}
      <div
        className={isFigure ? 'jctx-outputs figure' : 'jctx-outputs'}
        ref={node}
        hidden={!isDrawn}
        tabIndex={0}
        role="group"
        aria-label={isFigure ? 'Figure' : 'Output'}
      />
      {failed !== '' && <div className="small quiet">{failed}</div>}
    </>
  );
}

function isPicture(output: unknown): boolean {
  const { data } = output as { readonly data?: object };
  return Object.keys(data ?? {}).some(mime => mime.startsWith('image/'));
}

/** The line of a result that stands in the store, and the way to all of it. */
function Kept({ tool }: { tool: IToolPart }): React.ReactElement | null {
  const { host } = usePlace();
  const [pages, setPages] = React.useState<readonly string[]>([]);
  const [next, setNext] = React.useState<number | null>(0);
  const [failed, setFailed] = React.useState('');
  const { stored } = tool;
  if (!stored) {
    return null;
  }
  const read = (): void => {
    ask(host, 'result', { tool_use_id: tool.id, start: next ?? 0 }).then(
      page => {
        setPages(before => [...before, page.text]);
        setNext(page.next);
        setFailed('');
      },
      (error: unknown) => {
        setFailed(reasonOf(error));
      }
    );
  };
  return (
    <>
      {pages.length > 0 && (
        <pre className="out" tabIndex={0} role="group" aria-label="Stored result">
          {pages.join('')}
        </pre>
      )}
      <div className="small">
        <span className="quiet">
          {`${formatCount(stored.lines)} lines kept whole. The model sees `}
          {`${formatCount(stored.shownChars)} of ${formatCount(stored.chars)} characters.`}
        </span>{' '}
        {next !== null && (
          <button type="button" className="link" onClick={read}>
            {pages.length === 0 ? 'Open result' : 'Show more of it'}
          </button>
        )}
        {failed !== '' && <div role="alert">{failed}</div>}
      </div>
    </>
  );
}

function Edits({
  tool,
  undo
}: {
  tool: IToolPart;
  undo: () => Promise<unknown>;
}): React.ReactElement {
  const { host, actions } = usePlace();
  const [failed, setFailed] = React.useState('');
  const cell = tool.edits.find(edit => edit.cellId !== null)?.cellId;
  return (
    <div className="small row">
      {actions.canOpen && typeof cell === 'string' && (
        <button
          type="button"
          className="link"
          onClick={() => {
            host.openCell(cell);
          }}
        >
          Show cell
        </button>
      )}
      <button
        type="button"
        className="link"
        onClick={() => {
          undo().then(
            () => {
              setFailed('');
            },
            (error: unknown) => {
              setFailed(reasonOf(error));
            }
          );
        }}
      >
        Undo
      </button>
      {failed !== '' && <span role="alert">{failed}</span>}
    </div>
  );
}
