import js from '@eslint/js';
import hooks from 'eslint-plugin-react-hooks';
import tseslint from 'typescript-eslint';

/** What both mounts share: no DOM, no front end. */
const PURE = ['state', 'events', 'narrow', 'panel', 'parse', 'conversation'].map(
  name => `src/${name}.ts`
);

export default tseslint.config(
  { ignores: ['lib', 'node_modules', '**/*.config.js'] },
  js.configs.recommended,
  tseslint.configs.strictTypeChecked,
  {
    languageOptions: { parserOptions: { project: './tsconfig.check.json' } },
    plugins: { 'react-hooks': hooks },
    rules: {
      'react-hooks/rules-of-hooks': 'error',
      'react-hooks/exhaustive-deps': 'error',
      '@typescript-eslint/switch-exhaustiveness-check': 'error',
      '@typescript-eslint/consistent-type-imports': 'error',
      // Lumino's signals take `this` as an argument of connect().
      '@typescript-eslint/unbound-method': 'off',
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }]
    }
  },
  {
    // One view, two mounts: what draws knows React and the state, and no front end.
    files: ['src/view/**', ...PURE],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            { group: ['@jupyterlab/*', '@jupyter/*'], message: 'The view takes a Host instead.' },
            { group: ['@lumino/*'], message: 'The view takes a Host instead.' },
            {
              group: ['**/lab/*', '**/client'],
              message: 'Arrows point from the mount to the view.'
            }
          ]
        }
      ]
    }
  },
  {
    // The widget stands where there may be no JupyterLab, with what it shares with its panel.
    files: [
      'src/widget.tsx',
      'src/widget/**',
      ...['calls', 'conversation', 'feed', 'host', 'narrow', 'panel', 'parse'].map(
        n => `src/${n}.ts`
      )
    ],
    rules: {
      'no-restricted-imports': [
        'error',
        {
          patterns: [
            { group: ['@jupyterlab/*', '@jupyter/*', '@lumino/*'], message: 'No Lab is here.' },
            { group: ['**/lab/*', './client', '../client'], message: 'That is the Lab mount.' }
          ]
        }
      ]
    }
  },
  {
    files: PURE,
    rules: { 'no-restricted-globals': ['error', 'document', 'window', 'navigator'] }
  }
);
