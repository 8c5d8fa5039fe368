import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';
import { mockDaemon } from './mock/plugin.ts';

// `npm run dev` talks with made-up runs; PALAESTRA_DAEMON=http://127.0.0.1:PORT with a real daemon.
const daemon = process.env['PALAESTRA_DAEMON'];

export default defineConfig({
  plugins: [svelte(), ...(daemon ? [] : [mockDaemon()])],
  build: {
    outDir: '../src/palaestra/web/static',
    emptyOutDir: true,
    assetsInlineLimit: 0, // the page's policy lets nothing in that is not a file of ours
    modulePreload: { polyfill: false },
    target: 'es2022',
    cssCodeSplit: false,
    // Three files instead of forty: small ones pack badly, and the page comes from this machine or the next room.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: 'core', test: /node_modules.svelte|src.(lib|parts)/ },
            { name: 'plots', test: /uplot|src.(plots|compare)|pages.Compare/ },
            { name: 'pages', test: /src./ },
          ],
        },
      },
    },
  },
  server: daemon ? { proxy: { '/api': { target: daemon, ws: true, changeOrigin: true, headers: { origin: daemon } } } } : {},
});
