/** Limits of export, import and doctor. */
import type { LimitGroup } from './definition.js';

export const operationsLimits = {
  importSpoolBytesMax: {
    default: 16 * 1024 ** 3,
    about: "Bytes that all running imports together may take on the server's disk.",
  },
  importSpoolBytesPerCallerMax: {
    default: 1024 ** 3,
    about:
      "Bytes that the running imports of one caller may take on the server's disk. The operator is exempt.",
  },
  importBytesMax: { default: 16 * 1024 ** 3, about: 'Bytes in one imported file.' },
  importRecordsMax: {
    default: 10_000_000,
    about: 'Records in one imported file. Their ids are held in memory, up to 32 bytes each.',
  },
  importLineBytesMax: {
    default: 18 * 1024 * 1024,
    about:
      'Bytes in one line of an imported file. A line is held in memory. Every record that a request can ' +
      'write fits.',
  },
  importStepRecordsMax: {
    default: 200,
    positive: true,
    about: 'Records that an import writes in one transaction.',
  },
  importStepBytesMax: {
    default: 1024 * 1024,
    about: 'Bytes of lines that an import writes in one transaction. A longer line is written alone.',
  },
  importFindingsMax: {
    default: 100,
    about: 'Invalid lines, and conflicts, listed in the report of an import. All are counted.',
  },
  doctorFindingsMax: { default: 1_000, about: 'Findings listed by one run of doctor. All are counted.' },
} as const satisfies LimitGroup;
