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

interface IIcon {
  path: React.ReactNode;
  isFilled?: boolean;
}

function draw({ path, isFilled }: IIcon): () => React.ReactElement {
  return function Icon() {
    return (
      <svg className={isFilled ? 'fill' : undefined} viewBox="0 0 16 16" aria-hidden="true">
        {path}
      </svg>
    );
  };
}

export const RightIcon = draw({ path: <path d="M6 4l4 4-4 4" /> });
export const LeftIcon = draw({ path: <path d="M10 4L6 8l4 4" /> });
export const DownIcon = draw({ path: <path d="M4 6l4 4 4-4" /> });
export const PlusIcon = draw({ path: <path d="M8 3v10M3 8h10" /> });
export const CheckIcon = draw({ path: <path d="M3.5 8.5l3 3 6-7" /> });
export const CrossIcon = draw({ path: <path d="M4.5 4.5l7 7M11.5 4.5l-7 7" /> });
export const PenIcon = draw({ path: <path d="M10.5 3.5l2 2-7 7H3.5v-2z" /> });
export const TrashIcon = draw({
  path: <path d="M3.5 4.5h9M6.5 4.5v-1h3v1M4.5 4.5l.5 8h6l.5-8M7 7v3.5M9 7v3.5" />
});
export const SearchIcon = draw({
  path: (
    <>
      <circle cx="7" cy="7" r="3.5" />
      <path d="M10 10l3.5 3.5" />
    </>
  )
});
export const LockIcon = draw({
  path: (
    <>
      <rect x="3.5" y="7" width="9" height="6" rx="1" />
      <path d="M5.5 7V5a2.5 2.5 0 015 0v2" />
    </>
  )
});
export const AlarmIcon = draw({
  path: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 5v3.5M8 11v.2" />
    </>
  )
});
export const UpIcon = draw({ path: <path d="M4 10l4-4 4 4" /> });
export const ClockIcon = draw({
  path: (
    <>
      <circle cx="8" cy="8" r="6" />
      <path d="M8 4.5V8l2.5 1.5" />
    </>
  )
});
export const BlockIcon = draw({
  path: (
    <>
      <circle cx="8" cy="8" r="5.5" />
      <path d="M4.2 4.2l7.6 7.6" />
    </>
  )
});
export const MoreIcon = draw({
  isFilled: true,
  path: (
    <>
      <circle cx="3" cy="8" r="1.4" />
      <circle cx="8" cy="8" r="1.4" />
      <circle cx="13" cy="8" r="1.4" />
    </>
  )
});
export const StopIcon = draw({
  isFilled: true,
  path: <rect x="4" y="4" width="8" height="8" rx="1" />
});
export const RunIcon = draw({ isFilled: true, path: <circle cx="8" cy="8" r="4" /> });
