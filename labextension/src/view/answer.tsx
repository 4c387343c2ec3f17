/** An answer: Markdown by the host, block by block. What is finished is never drawn again. */

import * as React from 'react';

import { NOTHING, split } from './blocks';
import { CodeBlock } from './code';
import { usePlace } from './context';
import { useDrawing } from './drawing';

interface IAnswer {
  text: string;
  /** Whether more of it comes. */
  isGrowing: boolean;
}

export const Answer = React.memo(function Answer({ text, isGrowing }: IAnswer): React.ReactElement {
  const past = React.useRef(NOTHING);
  const { blocks } = (past.current = split(text, past.current));
  return (
    <div className="jctx-answer">
      {blocks.map((block, at) => {
        const grows = isGrowing && at === blocks.length - 1;
        return block.kind === 'text' ? (
          <Markdown key={at} text={block.text} isGrowing={grows} />
        ) : (
          <CodeBlock
            key={at}
            code={block.text}
            language={block.language}
            isGrowing={grows && !block.isClosed}
          />
        );
      })}
    </div>
  );
});

export const Markdown = React.memo(function Markdown({
  text,
  isGrowing = false
}: {
  text: string;
  isGrowing?: boolean;
}): React.ReactElement {
  const { host } = usePlace();
  const node = useDrawing<HTMLDivElement>(text, (source, target) =>
    host.renderMarkdown(source, target)
  );
  return <div className={isGrowing ? 'jctx-md growing' : 'jctx-md'} ref={node} />;
});
