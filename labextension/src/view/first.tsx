/** Before the first turn: what can be asked, and what is not set up. */

import * as React from 'react';

import type { ISession } from '../panel';
import { RightIcon } from './icons';
import { baseName, firstLine } from './words';

const EXAMPLES = [
  'What does this notebook do, step by step?',
  'Which variables are there, and what looks wrong?',
  'Check the last cell for mistakes'
];

/** What the demo model has scripts for: a tour, a figure, a long result, an edit. */
const DEMO_EXAMPLES = [
  'What is in this notebook?',
  'Plot a figure',
  'Print a long log',
  'Add a cell'
];

interface IFirstRun {
  session: ISession;
  examples: readonly string[];
  /** Put an example into the box. */
  take: (text: string) => void;
  run: (command: string) => void;
}

export function FirstRun({ session, examples, take, run }: IFirstRun): React.ReactElement {
  const ours = session.is_demo ? DEMO_EXAMPLES : EXAMPLES;
  return (
    <div className="jctx-first">
      <h2>
        {session.notebook === null
          ? 'Ask about your work'
          : `Ask about ${baseName(session.notebook)}`}
      </h2>
      <p>{firstLine(session)}</p>
      <div className="jctx-eg" role="group" aria-label="Examples">
        {(examples.length > 0 ? examples : ours).map(text => (
          <button
            key={text}
            type="button"
            onClick={() => {
              take(text);
            }}
          >
            <span className="grow">{text}</span>
            <RightIcon />
          </button>
        ))}
      </div>
      {session.is_demo && (
        <section className="jctx-note" aria-label="Demo model">
          <h3 aria-level={2}>Demo model: no key is set</h3>
          <div>
            Answers are scripted, offline and free. Everything else is real: tools, permissions, the
            gauge, compaction.
          </div>
          <div>
            To use Claude, set <code>ANTHROPIC_API_KEY</code> before Jupyter starts.
          </div>
          <div className="btns">
            <button
              type="button"
              className="plain"
              onClick={() => {
                run('/doctor');
              }}
            >
              Check my setup
            </button>
          </div>
        </section>
      )}
    </div>
  );
}
