/** The small gauge: a button with a bar and a number. It keeps its width, so nothing moves. */

import * as React from 'react';

import type { IPanelState } from '../state';
import { MiniBar } from './bar';
import { gaugeSentence, gaugeSizer, gaugeText, isSized } from './format';
import { WarnIcon } from './icons';

interface IGauge {
  state: IPanelState;
  /** Whether the bar is drawn; the number always is. */
  showBar: boolean;
  isOpen: boolean;
  onToggle: () => void;
}

export function Gauge({ state, showBar, isOpen, onToggle }: IGauge): React.ReactElement {
  const sentence = gaugeSentence(state);
  const { context } = state;
  return (
    <button
      type="button"
      className="jctx-gauge"
      aria-haspopup="dialog"
      aria-expanded={isOpen}
      aria-label={sentence}
      title={sentence}
      onClick={onToggle}
    >
      {showBar && context && isSized(context) && <MiniBar context={context} />}
      <span className="jctx-gauge-slot">
        <span className="jctx-gauge-text">
          {isAlarm(state) && <WarnIcon />}
          {gaugeText(state)}
        </span>
        <span className="jctx-gauge-sizer" aria-hidden="true">
          {gaugeSizer(state)}
        </span>
      </span>
    </button>
  );
}

/** A full window is no alarm. Compaction that cannot help is; so is a kernel not understood. */
function isAlarm({ link, phase, context }: IPanelState): boolean {
  return link === 'refused' || (phase === 'paused' && context !== null);
}
