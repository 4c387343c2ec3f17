import { defineConfig } from 'vitest/config';

// What @jupyter/ydoc's own cells bring Yjs to say whenever one is made.
const YJS = /Add Yjs type to a document before reading data|\[yjs#509\] Not same Y\.Doc/;

export default defineConfig({
  test: {
    include: ['src/__tests__/**/*.test.{ts,tsx}'],
    environment: 'node',
    onConsoleLog: log => !YJS.test(log)
  }
});
