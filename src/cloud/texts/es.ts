/**
 * The texts in Spanish.
 */
import { EN } from './en.js';
import type { Words } from './words.js';

export const ES: Words = {
  ...EN,
  greeting: 'Hola:',
  subject: {
    ...EN.subject,
    silent: (device) => `${device} está sin conexión`,
    stopped: (device) => `${device}: el dispositivo sigue apagado`,
    back: (device) => `${device} vuelve a estar en línea`,
  },
  sentence: {
    ...EN.sentence,
    silent: (device) => `El dispositivo «${device}» está sin conexión: ya no recibimos señales de él.`,
    stopped: (device) =>
      `El dispositivo «${device}» se apagó según lo previsto y aún no ha vuelto a conectarse.`,
    back: (device) => `El dispositivo «${device}» vuelve a estar en línea.`,
  },
  moment: { ...EN.moment, silent: 'Última señal', stopped: 'Apagado desde el', back: 'En línea desde el' },
  lasted: 'Duración de la interrupción',
  site: 'Ubicación',
  contact: 'Contacto',
  colon: ': ',
  promise: 'Recibirá un mensaje en cuanto el dispositivo vuelva a estar en línea.',
  closing: 'Este mensaje se ha enviado automáticamente.',
  overview: 'Resumen de sus dispositivos',
  units: ['día días', 'hora horas', 'minuto minutos', 'segundo segundos'],
  and: 'y',
  months: 'enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre',
  date: (day, month, year) => `${day} de ${month} de ${year}`,
  time: (time) => `, ${time} h`,
  sms: {
    // "está sin conexión" has two letters that are not in the alphabet.
    subject: {
      silent: (device) => `${device} no responde`,
      stopped: (device) => `El equipo ${device} sigue apagado`,
      back: (device) => `${device} responde de nuevo`,
    },
    site: 'Lugar',
    day: (day, month) => `${day}/${month}`,
    at: (day, time) => `${day}, ${time} h`,
    moment: { ...EN.sms.moment, silent: ' desde el ', stopped: ' desde el ', back: ' desde el ' },
    lasted: 'Sin respuesta durante ',
  },
  digest: {
    ...EN.digest,
    subject: {
      offline: (count) => `${count} dispositivos están sin conexión`,
      back: (count) => `${count} dispositivos vuelven a estar en línea`,
    },
    sms: {
      offline: (count) => `${count} equipos no responden`,
      back: (count) => `${count} equipos responden de nuevo`,
    },
    signals: ': ya no recibimos señales de ellos.',
    since: 'desde el',
    more: (count) => `y ${count} más`,
    promise: 'Recibirá un mensaje en cuanto los dispositivos vuelvan a estar en línea.',
  },
};
