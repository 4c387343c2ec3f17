/** Icons: 16 px, drawn with the text's colour. */

import * as React from 'react';

export function WarnIcon(): React.ReactElement {
  return (
    <svg className="jctx-warn" viewBox="0 0 16 16" aria-hidden="true">
      <circle cx="8" cy="8" r="6" />
      <path d="M8 5v3.5M8 11v.2" />
    </svg>
  );
}
