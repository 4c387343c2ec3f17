import { defineConfig } from 'vite';

// The page of the gallery: the view as it is, the widget's host, and sample data.
export default defineConfig({
  root: import.meta.dirname,
  base: './',
  logLevel: 'warn',
  build: { target: 'es2022', minify: false, modulePreload: false }
});
