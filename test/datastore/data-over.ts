/** A service over one backend, without a home beside it. */
import type { Writer } from '../../src/core/write.js';
import type { DataPort, DocumentStore } from '../../src/datastore/port.js';
import { DataService, type DataServiceOptions } from '../../src/datastore/service.js';
import { storeDocuments } from '../../src/datastore/document-store/documents.js';

export type Backend = DocumentStore | (DataPort & { writer: Writer });

export function dataOver({
  port,
  ...options
}: Omit<DataServiceOptions, 'port' | 'writer'> & { port: Backend }): DataService {
  const documents = 'writer' in port ? { port, writer: port.writer } : storeDocuments(port, options.limits);
  return new DataService({ ...documents, ...options });
}
