import { statSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { defineConfig } from 'vite';

// The widget: the view of src/ in one file without JupyterLab, with Preact in React's place.
const here = path => fileURLToPath(new URL(path, import.meta.url));
const out = here('../jupyter_ctx/panel/static');
const MOST_BYTES = 250_000;

const sizes = {
  name: 'sizes',
  closeBundle() {
    for (const name of ['widget.js', 'widget.css']) {
      const { size } = statSync(`${out}/${name}`);
      console.log(`${name}: ${size.toLocaleString('en')} bytes, minified`);
      if (name === 'widget.js' && size > MOST_BYTES) {
        throw new Error(`${name} is larger than ${MOST_BYTES.toLocaleString('en')} bytes`);
      }
    }
  }
};

// Lab marks its theme on the body; elsewhere the widget marks what it lies in (src/widget.tsx).
const themes = {
  name: 'themes',
  enforce: 'pre',
  transform(code, id) {
    if (!id.endsWith('.css')) {
      return null;
    }
    return code
      .replaceAll(
        "body[data-jp-theme-light='true']",
        ":is(body[data-jp-theme-light='true'], .jctx-light)"
      )
      .replaceAll(
        "body[data-jp-theme-light='false']",
        ":is(body[data-jp-theme-light='false'], .jctx-dark)"
      )
      .replaceAll('body[data-jp-theme-light]', ':is(body[data-jp-theme-light], .jctx-elsewhere)');
  }
};

export default defineConfig({
  root: here('.'),
  logLevel: 'warn',
  define: { 'process.env.NODE_ENV': '"production"' },
  resolve: {
    alias: [
      { find: /^react-dom\/client$/, replacement: 'preact/compat/client' },
      { find: /^react(-dom)?$/, replacement: 'preact/compat' }
    ]
  },
  build: {
    outDir: out,
    emptyOutDir: true,
    target: 'es2022',
    minify: true,
    modulePreload: false,
    copyPublicDir: false,
    license: { fileName: 'third-party-licenses.md' },
    // No library mode: that leaves the whitespace of a module in.
    rolldownOptions: {
      input: here('src/widget.tsx'),
      preserveEntrySignatures: 'strict',
      output: { entryFileNames: 'widget.js', assetFileNames: 'widget[extname]' }
    }
  },
  plugins: [themes, sizes]
});
