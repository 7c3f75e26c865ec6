/**
 * The texts in Spanish.
 */
import { nounFor, type Point, type Words } from './words.js';

/** `las 14:02`, but `la 01:02`. */
const hour = (time: string) => `${time.startsWith('01') ? 'la' : 'las'} ${time}`;

const at = ({ day, time }: Point) => (day === null ? `${hour(time)} h` : `el ${day} a ${hour(time)} h`);

export const ES: Words = {
  greeting: 'Hola:',
  subject: {
    silent: (device) => `${device} está sin conexión`,
    stopped: (device) => `${device}: el dispositivo sigue apagado`,
    back: (device) => `${device} vuelve a estar en línea`,
    was: (device, when) => `${device} estuvo sin conexión ${when ?? 'y vuelve a estar en línea'}`,
    quiet: (device, until) => `${device} está en modo silencio ${until}`,
    word: (device) => `Último mensaje de ${device}`,
    still: (device, span) => `${device} sigue sin conexión${span === null ? '' : ` desde hace ${span}`}`,
    stuck: (device) => `${device} está en línea, pero sus correos no salen`,
    flows: (device) => `${device} vuelve a enviar sus correos`,
    drill: (device) => `PRUEBA: así le avisaría ${device}`,
  },
  sentence: {
    silent: (device) => `El dispositivo «${device}» está sin conexión: ya no recibimos señales de él.`,
    stopped: (device) =>
      `El dispositivo «${device}» se apagó según lo previsto y aún no ha vuelto a conectarse.`,
    back: (device) => `El dispositivo «${device}» vuelve a estar en línea.`,
    was: (device) =>
      `El dispositivo «${device}» estuvo sin conexión fuera de su horario de avisos. Vuelve a estar en línea.`,
    quiet: (device) => `El dispositivo «${device}» está en modo silencio.`,
    word: (device) =>
      `El dispositivo «${device}» ha enviado un último mensaje. Es posible que pronto se quede sin conexión.`,
    still: (device) => `El dispositivo «${device}» sigue sin conexión: no recibimos señales de él.`,
    stuck: (device) => `El dispositivo «${device}» está en línea, pero sus correos no salen.`,
    flows: (device) => `El dispositivo «${device}» vuelve a enviar sus correos.`,
    drill: (device) =>
      `Esto es una prueba: no ha ocurrido nada. Recibirá un mensaje como este si el dispositivo «${device}» se queda sin conexión.`,
  },
  moment: {
    silent: 'Última señal',
    stopped: 'Apagado desde el',
    back: 'En línea desde el',
    quiet: 'En silencio hasta el',
    word: 'Enviado el',
    still: 'Última señal',
    stuck: 'Desde el',
    flows: 'Desde el',
  },
  lasted: 'Duración de la interrupción',
  site: 'Ubicación',
  contact: 'Contacto',
  colon: ': ',
  why: {
    ran: 'El dispositivo siguió funcionando: fallaba la conexión de red.',
    restarted: (up) => `Corte de corriente o reinicio${up === null ? '' : `: en marcha desde hace ${up}`}.`,
  },
  flaps: (times, since) => `Hubo ${times} interrupciones${since === null ? '' : ` desde ${at(since)}`}.`,
  lastWord: 'Último mensaje',
  was: { from: 'Desde el', to: 'Hasta el', times: 'Número de interrupciones' },
  quiet: {
    why: 'Motivo',
    means:
      'Hasta entonces no se avisará a nadie si el dispositivo se queda sin conexión. Si después sigue sin conexión, recibirá un mensaje.',
  },
  lastsFor: 'Duración hasta ahora',
  stuck: {
    relay: 'Servidor de correo',
    states: { failing: 'con fallos', refusing: 'rechaza los correos' },
    failed: 'Mensajes fallidos',
    promise: 'Recibirá un mensaje en cuanto sus correos vuelvan a salir.',
  },
  drill: {
    confirm: '¿Ha visto este mensaje? Abra esta página y pulse el botón',
    seen: '¿Visto?',
    device: 'su dispositivo',
    brief: 'PRUEBA.',
  },
  when: {
    until: (moment) => `hasta ${at(moment)}`,
    period: (from, to) =>
      to.day === null ? `el ${from.day} de ${from.time} a ${to.time} h` : `desde ${at(from)} hasta ${at(to)}`,
    repeated: (times, from, to) =>
      to.day === null
        ? `${times} veces el ${from.day} entre ${hour(from.time)} y ${hour(to.time)} h`
        : `${times} veces entre ${at(from)} y ${at(to)}`,
  },
  promise: 'Recibirá un mensaje en cuanto el dispositivo vuelva a estar en línea.',
  closing: 'Este mensaje se ha enviado automáticamente.',
  overview: 'Resumen de sus dispositivos',
  units: ['día días', 'hora horas', 'minuto minutos', 'segundo segundos'],
  and: 'y',
  months: 'enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre',
  date: (day, month, year) => `${day} de ${month} de ${year}`,
  time: (time) => `, ${time} h`,
  sms: {
    // "está sin conexión" has two letters that are not in the alphabet, and "así" has one.
    subject: {
      silent: (device) => `${device} no responde`,
      stopped: (device) => `El equipo ${device} sigue apagado`,
      back: (device) => `${device} responde de nuevo`,
      was: (device, when) => `${device} estuvo sin responder ${when ?? 'y responde de nuevo'}`,
      quiet: (device, until) => `${device} en modo silencio ${until}`,
      still: (device, span) => `${device} sigue sin responder${span === null ? '' : ` desde hace ${span}`}`,
      stuck: (device) => `${device} responde, pero sus correos no salen`,
      drill: (device) => `PRUEBA: ${device} le avisa de este modo`,
    },
    site: 'Lugar',
    why: { ran: 'Equipo en marcha, fallo de conexión.' },
    flaps: (times, since) => `${times} interrupciones${since === null ? '' : ` desde ${at(since)}`}.`,
    day: (day, month) => `${day}/${month}`,
    at: (day, time) => `${day}, ${time} h`,
    moment: {
      silent: ' desde el ',
      stopped: ' desde el ',
      back: ' desde el ',
      word: '. Enviado el ',
      still: '. Sin señal desde el ',
      stuck: ' desde el ',
      flows: ' desde el ',
    },
    lasted: 'Sin respuesta durante ',
  },
  digest: {
    subject: {
      offline: (count) => `${count} dispositivos están sin conexión`,
      back: (count) => `${count} dispositivos vuelven a estar en línea`,
      still: (count) => `${count} dispositivos siguen sin conexión`,
      stuck: (count) => `${count} dispositivos están en línea, pero sus correos no salen`,
      flows: (count) => `${count} dispositivos vuelven a enviar sus correos`,
      was: (count) =>
        `${count} dispositivos estuvieron sin conexión fuera de su horario y vuelven a estar en línea`,
    },
    sms: {
      offline: (count) => `${count} equipos no responden`,
      back: (count) => `${count} equipos responden de nuevo`,
      still: (count) => `${count} equipos siguen sin responder`,
      stuck: (count) => `${count} equipos responden, pero sus correos no salen`,
      flows: (count) => `${count} equipos vuelven a enviar sus correos`,
      was: (count) => `${count} equipos no respondieron fuera de su horario y responden de nuevo`,
    },
    signals: ': ya no recibimos señales de ellos.',
    since: 'desde el',
    more: (count) => `y ${count} más`,
    promise: 'Recibirá un mensaje en cuanto los dispositivos vuelvan a estar en línea.',
    site: {
      offline: (site, count, total) => `Ubicación ${site}: ${count} de ${total} dispositivos sin conexión`,
      back: (site, count, total) => `Ubicación ${site}: ${count} de ${total} dispositivos de nuevo en línea`,
    },
    siteSms: {
      offline: (site, count, total) => `Lugar ${site}: ${count} de ${total} equipos sin respuesta`,
      back: (site, count, total) => `Lugar ${site}: ${count} de ${total} equipos responden de nuevo`,
    },
  },
  weekly: {
    clear: 'Sin interrupciones en los últimos 7 días',
    outages: (devices) =>
      `${devices} ${nounFor(devices, 'dispositivo dispositivos')} con interrupciones en los últimos 7 días`,
    watched: (total) =>
      `Se ${nounFor(total, 'supervisa supervisan')} ${total} ${nounFor(total, 'dispositivo dispositivos')}.`,
    until: 'Actualizado el',
    line: (times, lasted) =>
      `${times} ${nounFor(times, 'interrupción interrupciones')}${lasted === null ? '' : `, ${lasted}${times === 1 ? '' : ' en total'}`}`,
    still: 'sigue sin conexión',
    quiet: 'Ahora en modo silencio',
  },
};
