/**
 * The faults of fields, as a problem of the API names them. Pure.
 */

/** A fault of one field, as a problem names it. */
export interface FieldFault {
  readonly pointer: string;
  readonly detail: string;
}

/** The words of the fault of the field `name`; empty without one. A pointer may name a member within the field. */
export function faultOf(name: string, faults: readonly FieldFault[]): string {
  return faults
    .filter(({ pointer }) => pointer === name || pointer === `/${name}` || pointer.startsWith(`/${name}/`))
    .map(({ detail }) => detail)
    .join('; ');
}
