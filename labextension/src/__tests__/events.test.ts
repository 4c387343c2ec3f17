import { describe, expect, it } from 'vitest';

import { PARTS, parseMessage } from '../events';
import { contextMessage, load, names } from './fixtures';

describe('parseMessage', () => {
  it.each(names())('takes %s as it is', name => {
    const { version, ...body } = load(name) as Record<string, unknown>;

    expect(version).toBe(1);
    expect(parseMessage(load(name))).toEqual(withoutVersion(body));
  });

  it.each(names('refused/'))('refuses %s with a sentence', name => {
    const refused = parseMessage(load(`refused/${name}`));

    expect(refused.type).toBe('refused');
    expect(refused).toHaveProperty('reason', expect.stringMatching(/^[A-Z].*\.$/));
  });

  it('says which versions met, and what to do', () => {
    expect(parseMessage({ version: 2, type: 'hello' })).toEqual({
      type: 'refused',
      reason:
        'The kernel speaks protocol 2, this page speaks 1. Install one version of jupyter-ctx ' +
        'for both, then restart the kernel and reload the page.'
    });
  });

  it('never throws, whatever comes', () => {
    for (const data of [undefined, null, 3, 'x', [], {}, { version: 1, type: 'context' }]) {
      expect(parseMessage(data).type).toBe('refused');
    }
  });

  it.each(names().filter(name => name.startsWith('context_')))('%s adds up', name => {
    const { context } = contextMessage(name);

    if (context) {
      const sum = PARTS.reduce((total, part) => total + context.parts[part], 0);
      expect(sum).toBe(context.used_tokens);
      expect(context.measured_tokens + context.estimated_tokens).toBe(context.used_tokens);
    }
  });
});

/** The context carries a version of its own, which is checked and dropped. */
function withoutVersion(body: Record<string, unknown>): Record<string, unknown> {
  if (typeof body['context'] !== 'object' || body['context'] === null) {
    return body;
  }
  const { version, ...context } = body['context'] as Record<string, unknown>;
  expect(version).toBe(1);
  return { ...body, context };
}
