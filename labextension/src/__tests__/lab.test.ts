// @vitest-environment happy-dom
import { MimeData } from '@lumino/coreutils';
import { describe, expect, it } from 'vitest';

import { canMention, mentionFile, mentionsOf } from '../lab/dropped';
import { EXPRESSION, otherVersion, readReply } from '../lab/load';
import { restrict } from '../lab/sanitize';

type Reply = Parameters<typeof readReply>[0];

function replied(found: object): Reply {
  return {
    status: 'ok',
    execution_count: 1,
    user_expressions: { version: found },
    payload: []
  } as unknown as Reply;
}

describe('loading the extension', () => {
  it('is an expression, which binds no name', () => {
    expect(EXPRESSION).not.toMatch(/(^|[^=])=[^=]|:=|\n|;/);
  });

  it('is done when the package says its version', () => {
    expect(readReply(replied({ status: 'ok', data: {} }))).toEqual({ is: 'loaded' });
  });

  it('says what to install where the package is not there', () => {
    const evalue = "No module named 'jupyter_ctx'";
    const found = readReply(replied({ status: 'error', ename: 'ModuleNotFoundError', evalue }));

    expect(found).toMatchObject({ is: 'missing', command: '%pip install jupyter-ctx' });
  });

  it('tells any other error, and how to see all of it', () => {
    const found = readReply(replied({ status: 'error', ename: 'ValueError', evalue: 'odd' }));

    expect(found).toMatchObject({ is: 'missing', command: '%load_ext jupyter_ctx' });
    expect(found).toHaveProperty('detail', expect.stringContaining('ValueError: odd'));
  });

  it('says which of two versions to upgrade, and where', () => {
    expect(otherVersion('0.1', 0)).toMatchObject({
      title: 'jupyter_ctx 0.1 in this kernel is older than this page.',
      command: '%pip install --upgrade jupyter-ctx'
    });
    expect(otherVersion('9.0', 2)).toMatchObject({
      title: 'jupyter_ctx 9.0 in this kernel is newer than this page.',
      command: 'pip install --upgrade jupyter-ctx'
    });
    for (const odd of [{ evil: 1 }, '', 'x'.repeat(10_000_000), '9\u202e', '1.0 (trust me)', NaN]) {
      expect(otherVersion(odd, null)).toMatchObject({
        title: 'jupyter_ctx in this kernel is older than this page.'
      });
    }
  });

  it('waits where a cell before it failed and took it along', () => {
    const aborted = { status: 'aborted', execution_count: 1 } as unknown as Reply;
    expect(readReply(aborted)).toEqual({ is: 'busy' });
  });
});

describe('what is dropped into the prompt', () => {
  it('are cells by their id', () => {
    const data = new MimeData();
    data.setData('application/vnd.jupyter.cells', [{ id: 'a1' }, {}, null, { id: 'b-2' }]);

    expect(canMention(data)).toBe(true);
    expect(mentionsOf(data, '')).toEqual(['@cell:a1', '@cell:b-2']);
  });

  it('are files as the notebook sees them', () => {
    const data = new MimeData();
    const paths = ['work/data.csv', 'RTC:work/in/a b.txt', 'other/x.py', 5];
    data.setData('application/x-jupyter-icontents', paths);

    expect(mentionsOf(data, 'work')).toEqual(['@data.csv', '@"in/a b.txt"', '@../other/x.py']);
  });

  it('are in quotes where they would be read as something else', () => {
    expect(mentionFile('Makefile', '')).toBe('@"Makefile"');
    expect(mentionFile('größe.csv', '')).toBe('@größe.csv');
    expect(mentionFile('odd.', '')).toBe('@"odd."');
  });

  it('is nothing else', () => {
    const data = new MimeData();
    data.setData('text/plain', 'words');

    expect(canMention(data)).toBe(false);
  });
});

describe('HTML of the agent', () => {
  it('has a link in place of a picture of another site', () => {
    const html = restrict('<p><img src="https://evil.example/a.png?k=1" alt="A"></p>', false);

    expect(html).not.toContain('<img');
    expect(html).toContain('href="https://evil.example/a.png?k=1"');
    expect(html).toContain('>A</a>');
  });

  it('keeps pictures within the page and of the folder, and others if they are wanted', () => {
    for (const source of ['data:image/png;base64,AA', 'attachment:a.png', 'plots/a.png']) {
      expect(restrict(`<img src="${source}">`, false)).toContain('<img');
    }
    for (const source of ['/logout', '//evil.example/a', '../../api', 'data:image/svg+xml,x']) {
      expect(restrict(`<img src="${source}">`, false)).not.toContain('<img');
    }
    expect(restrict('<img src="https://a.example/a.png">', true)).toContain('<img');
  });

  it('has nothing that sends, takes input, plays or names a command', () => {
    const html = restrict(
      '<form action="https://evil.example"><button>Allow</button><textarea></textarea>' +
        '<input type="text"></form><video src="https://evil.example/v" poster="x"></video>' +
        '<a data-commandlinker-command="x:y" data-commandlinker-args="{}">go</a>' +
        '<p class="jctx-permission other" style="background-image: url(https://evil.example)">t</p>',
      false
    );

    expect(html).not.toMatch(/<(form|button|textarea|input|video)|commandlinker|url\(|jctx/);
    expect(html).toContain('Allow');
    expect(html).toContain('class="other"');
  });
});
