import { defineConfig } from 'vitest/config';

export default defineConfig({
  // An optional peer of the sources, installed here alone.
  resolve: { dedupe: ['@langchain/langgraph-checkpoint'] },
  test: {
    include: ['**/*.test.ts'],
    testTimeout: 60_000,
    hookTimeout: 120_000,
    pool: 'forks',
    // Suites wait for disks and servers more than they compute.
    maxWorkers: 3,
    globalSetup: ['./servers/desk.ts'],
  },
});
