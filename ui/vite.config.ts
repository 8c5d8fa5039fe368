import { readdirSync } from 'node:fs';
import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';
import { mockDaemon } from './mock/plugin.ts';

// `npm run dev` talks with made-up runs; PALAESTRA_DAEMON=http://127.0.0.1:PORT with a real daemon.
const daemon = process.env['PALAESTRA_DAEMON'];

// Short names for the scopes of styles: with a name for each component they are a kilobyte of every page.
const components = readdirSync('src', { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.svelte')).sort();
const shortName = (filename: string) => `s${components.findIndex((name) => filename.endsWith(name)).toString(36)}`;

export default defineConfig({
  plugins: [svelte({ compilerOptions: { cssHash: ({ filename }) => shortName(filename) } }), ...(daemon ? [] : [mockDaemon()])],
  build: {
    outDir: '../src/palaestra/web/static',
    emptyOutDir: true,
    assetsInlineLimit: 0, // the page's policy lets nothing in that is not a file of ours
    modulePreload: { polyfill: false },
    target: 'es2022',
    cssCodeSplit: false,
    // One file instead of forty: small ones pack badly, and the page comes from this machine or the next room.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: 'page', test: /node_modules|src.(?!discoveries|pages.Discoveries)/ },
            { name: 'discoveries', test: /src.discoveries|pages.Discoveries/ }, // fetched when it is opened
          ],
        },
      },
    },
  },
  server: daemon ? { proxy: { '/api': { target: daemon, ws: true, changeOrigin: true, headers: { origin: daemon } } } } : {},
});
